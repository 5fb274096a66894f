"""Retrievers with fixed random weights."""

from __future__ import annotations

from typing import Any

from attention_zoo import models
from attention_zoo.data import generate_scenes, train_tokenizer
from attention_zoo.tasks import Retrieval
from tests.layers.running import randomise

SCENES = generate_scenes(4, "train", 1, max_things=2).resize(16)
TEXTS = [text for texts in SCENES.captions for text in texts]
TOKENIZER = train_tokenizer("whitespace", TEXTS, 60)
TINY: dict[str, Any] = {"embedding_dim": 5, "units": 6, "encoder": {"filters": [4, 5]}}


def make_untrained_task(tokenizer: Any = TOKENIZER, **options: Any) -> Retrieval:
    """Return a retriever with the vocabulary of `TEXTS` and random weights."""
    model = models.CrossAttentionRetriever(tokenizer.vocabulary_size, **{**TINY, **options})
    randomise(model)
    return Retrieval(model, tokenizer, image_size=16, max_target_length=12)
