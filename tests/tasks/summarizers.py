"""Summarizers with fixed random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attention_zoo import models
from attention_zoo.data import train_tokenizer
from attention_zoo.tasks import Summarization
from tests.tasks.captioners import with_normal_weights


def make_untrained_task(
    texts: Sequence[str],
    preset: str = "pointer_generator_small",
    *,
    model: dict[str, Any] | None = None,
    **task: Any,
) -> Summarization:
    """Return a summarizer with the vocabulary of these texts and normal random weights."""
    tokenizer = train_tokenizer("word", texts)
    sizes = {"embedding_dim": 8, "units": 8, "copies": 3, **(model or {})}
    untrained_model = models.from_preset(preset, vocabulary_size=tokenizer.vocabulary_size, **sizes)
    return Summarization(with_normal_weights(untrained_model), tokenizer, **task)
