"""Translators with fixed random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_zoo import models
from attention_zoo.data import train_tokenizer
from attention_zoo.tasks import Translation


def make_untrained_task(
    preset: str,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    kind: str = "word",
    vocabulary_size: int = 8000,
    **task: Any,
) -> Translation:
    """Return a translator with the vocabularies of these texts and normal random weights.

    The weights are scaled so that sums of many stay small: otherwise a rounding error in a weight
    could change a predicted word.
    """
    source, target = (train_tokenizer(kind, texts, vocabulary_size) for texts in (sources, targets))
    few = {"num_layers": 2} if preset.startswith("transformer") else {}
    model = models.from_preset(
        preset,
        **few,
        source_vocabulary_size=source.vocabulary_size,
        target_vocabulary_size=target.vocabulary_size,
        embedding_dim=8,
        units=8,
    )
    for seed, weight in enumerate(model.trainable_weights):
        values = np.random.default_rng(seed).normal(size=weight.shape)
        weight.assign((values * min(1.0, 3 / np.sqrt(weight.shape[0]))).astype("float32"))
    return Translation(model, source, target, **task)
