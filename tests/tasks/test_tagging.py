"""Words keep their tags: through tokens, padding and batches, and back to places in a text."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import models, tasks, training
from attention_zoo.cli import main
from attention_zoo.data import TaggedSentences, generate_orders, train_tokenizer
from attention_zoo.decoding import SearchOptions
from attention_zoo.tasks import Tagged, TaggedSpan, Tagging
from tests.training.small import assert_same_run

CORPUS = TaggedSentences(
    [("Ida", "Lamp", "saw", "New", "York", "."), ("no", "lamps"), ("York",), ("Ida",) * 9],
    [
        ("B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O"),
        ("O", "O"),
        ("B-LOC",),
        ("B-PER", *["O"] * 8),
    ],
    "test sentences",
    marks=[(False, False, True, False, False, False), (False, True), (True,), (False,) * 9],
)
WORDS = [word for words in CORPUS.words for word in words]
TEXT = "Ida Lamp saw  York, no?"
CRF = {"kind": "crf", "tag_scheme": "BIO"}


@functools.cache
def tagger(
    kind: str = "whitespace", characters: bool = False, attention: bool = False, **options: Any
) -> Tagging:
    """A small tagger with random weights; only to be read."""
    tokenizer = train_tokenizer(kind, WORDS, 40)
    letters = train_tokenizer("character", WORDS, 40) if characters else None
    sizes: dict[str, Any] = {"embedding_dim": 8, "units": 8}
    if letters is not None:
        own = {"vocabulary_size": letters.vocabulary_size, "embedding_dim": 4, "units": 4}
        sizes["characters"] = own
    if attention:
        sizes["attention"] = {"num_heads": 2, "key_dim": 4}
    task = {name: options.pop(name) for name in ("scheme", "max_length") if name in options}
    if "head" in options:
        options["head"] = dict(options["head"])
    with keras.device("cpu"):
        keras.utils.set_random_seed(3)
        model = models.RecurrentTagger(
            tokenizer.vocabulary_size, tags=CORPUS.known_tags, **sizes, **options
        )
    return Tagging(model, tokenizer, letters, **task)
