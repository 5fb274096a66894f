"""The picture of an answer: where the model looked while it wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw_answer(answer: Any, path: str | Path | None = None) -> Any:
    """The figure of an answer with tokens and attention, also written to a file if one is named.

    Of a summary it is its source as running text, of other answers a matrix.
    """
    from attention_zoo import inspection, tasks

    if isinstance(answer, tasks.Summary):
        return inspection.plot_summary_heat(answer, path)
    weights = answer.attention
    if weights.ndim == 4:  # of self-attention: the mean over layers and heads
        weights = weights.mean(axis=(0, 1))
    return inspection.plot_alignment(weights, answer.tokens, answer.source_tokens, path)
