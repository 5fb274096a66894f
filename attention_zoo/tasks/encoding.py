"""Vocabularies and token ids of a corpus, which are kept in the cache if the corpus is in it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attention_zoo.data import Tokenizer, load_tokenizer
from attention_zoo.data.batching.encoded import EncodedCorpus
from attention_zoo.data.batching.ragged import Row
from attention_zoo.data.tokenizers.tokenizer import TOKENIZERS
from attention_zoo.tasks.building import (
    DEFAULT_KIND,
    TokenizerOptions,
    build_model,
    naming_preset,
    train_recipe_tokenizer,
)
from attention_zoo.tasks.corpus_texts import get_texts

EncodedPart = tuple[Sequence[int], Mapping[str, Sequence[Row]]]
"""Row numbers of examples in their corpus, and their token ids by column."""


def load_or_encode(
    task: Any, examples: Any, parts: Callable[[], Iterable[EncodedPart]]
) -> EncodedCorpus:
    """Return the token ids of the examples within the length limits.

    Args:
        task: the task, with `tokenizers` and `encoding_options`.
        examples: the corpus.
        parts: function that encodes the examples, part by part.
    """

    def encode(folder: Path | None = None) -> EncodedCorpus:
        encoded = EncodedCorpus(folder)
        for rows, columns in parts():
            encoded.extend(rows, columns)
        encoded.close()
        return encoded

    stored = getattr(examples, "stored", None)  # a corpus of a user may lack it
    if stored is None or not all(map(is_ours, (task, *task.tokenizers.values()))):
        return encode()
    tokenizers = {name: hash_tokenizer(one) for name, one in task.tokenizers.items()}
    key = {"task": task.name, "tokenizers": tokenizers, **task.encoding_options}
    return EncodedCorpus(stored.derive("tokens", key, encode))


def is_ours(value: Any) -> bool:
    """Return whether a class, or that of an object, is of this package; others may change."""
    cls = value if isinstance(value, type) else type(value)
    return cls.__module__.startswith("attention_zoo.")


def hash_tokenizer(tokenizer: Any) -> str:
    """Return the SHA-256 of the files of a tokenizer."""
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        for path in sorted(Path(folder).iterdir()):
            digest.update(path.name.encode() + b"\\0" + path.read_bytes() + b"\\0")
    return digest.hexdigest()


def train_or_load_tokenizer(
    options: TokenizerOptions, examples: Any, columns: Sequence[str]
) -> Tokenizer:
    """Train a tokenizer on columns of a corpus, or load it from the cache.

    Args:
        options: options of the tokenizer.
        examples: the corpus.
        columns: names of its columns.
    """

    def train() -> Tokenizer:
        return train_recipe_tokenizer(options, get_texts(examples, columns))

    stored = getattr(examples, "stored", None)
    if stored is None or not is_ours(TOKENIZERS.get(options.kind or DEFAULT_KIND)):
        return train()
    key = {"columns": [*columns], "options": asdict(options)}
    folder = stored.derive("tokenizer", key, lambda folder: train().save(folder))
    tokenizer: Tokenizer = load_tokenizer(folder)
    return tokenizer


def build_task(task_class: Any, recipe: Any, examples: Any, *columns: str) -> Any:
    """Build a task whose model and tokenizer have one vocabulary.

    Args:
        task_class: class of the task.
        recipe: the recipe.
        examples: the corpus.
        columns: the columns of the corpus that the tokenizer is trained on.
    """
    tokenizer = train_or_load_tokenizer(recipe.tokenizer, examples, columns)
    model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
    with naming_preset(recipe.model):
        return task_class(model, tokenizer, **task_class.recipe_options(recipe))
