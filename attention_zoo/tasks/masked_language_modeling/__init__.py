"""Masked language modeling: prediction of the tokens at `[MASK]`."""

from attention_zoo.tasks.masked_language_modeling.task import (
    FillMaskResult,
    MaskedLanguageModeling,
    TokenPrediction,
)

__all__ = ["FillMaskResult", "MaskedLanguageModeling", "TokenPrediction"]
