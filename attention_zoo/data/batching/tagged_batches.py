"""Batches of tagged sentences, with one or more tokens per word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching.batching import Batch, Batches
from attention_zoo.data.batching.ragged import Integers, Ragged, RaggedBuilder

UNLABELLED = -1
"""Label of padding positions."""


class EncodedWords(NamedTuple):
    """A sentence as a tagger's input.

    tokens: token ids of all words, concatenated.
    starts: index in `tokens` of each word's first token, from 0; increasing, one per word.
    characters: for each token its character ids, or None.
    marks: for each token whether its word is marked, or None.
    """

    tokens: Sequence[int]
    starts: Sequence[int]
    characters: Sequence[Sequence[int]] | None = None
    marks: Sequence[bool] | None = None

    @property
    def has_single_tokens(self) -> bool:
        """Whether every word is a single token."""
        return len(self.tokens) == len(self.starts)


class TaggedBuilder:
    """Encoded sentences and their labels, which are collected part by part, as flat arrays."""

    def __init__(self) -> None:
        self.tokens, self.labels, self.starts = RaggedBuilder(), RaggedBuilder(), RaggedBuilder()
        self.marks, self.characters = RaggedBuilder(), RaggedBuilder()
        self.has_single_tokens = True

    def extend(self, sentences: Sequence[EncodedWords], labels: Sequence[Sequence[int]]) -> None:
        """Add sentences with the tag ids of their words; all or none have characters, or marks.

        Raises:
            ValueError: different numbers of labels and sentences, or of labels and words.
        """
        if len(sentences) != len(labels):
            raise ValueError(
                f"expected one label sequence per sentence, got {len(labels)} label sequences and"
                f" {len(sentences)} sentences"
            )
        first = len(self.labels) + 1
        for number, (sentence, tags) in enumerate(zip(sentences, labels, strict=True), first):
            if len(sentence.starts) != len(tags):
                raise ValueError(
                    f"sentence {number} has {len(sentence.starts)} words but {len(tags)} labels"
                )
        self.has_single_tokens &= all(sentence.has_single_tokens for sentence in sentences)
        self.tokens.extend([sentence.tokens for sentence in sentences])
        self.labels.extend([[tag + 1 for tag in tags] for tags in labels])
        self.starts.extend([[index + 1 for index in sentence.starts] for sentence in sentences])
        if sentences and sentences[0].marks is not None:
            self.marks.extend([sentence.marks or () for sentence in sentences])
        if sentences and sentences[0].characters is not None:
            tokens = [token for sentence in sentences for token in sentence.characters or ()]
            self.characters.extend(tokens)


class TaggedBatches(Batches):
    """Batches of tagged sentences.

    Args:
        sentences: encoded sentences; all or none with characters, all or none with marks. Or a
            `TaggedBuilder`, which contains the labels too.
        labels: for each sentence the tag ids of its words, from 0.
        batch_size, seed, options: see `Batches`. The numbers P of tokens and W of words in a
            sentence and C of characters in a token are padded to multiples of `bucket_width`.

    Raises:
        ValueError: no sentences, a sentence without words, different numbers of labels and words,
            or see `Batches`.
    """

    def __init__(
        self,
        sentences: Sequence[EncodedWords] | TaggedBuilder,
        labels: Sequence[Sequence[int]],
        batch_size: int,
        seed: int,
        **options: Any,
    ) -> None:
        if isinstance(sentences, TaggedBuilder):
            builder = sentences
        else:
            builder = TaggedBuilder()
            builder.extend(sentences, labels)
        self._tokens = Ragged.from_rows(builder.tokens, "sentence")
        self._labels = Ragged.from_rows(builder.labels, "sentence")
        self._columns = {"tokens": self._tokens}
        if not builder.has_single_tokens:
            self._columns["starts"] = Ragged.from_rows(builder.starts, "sentence")
        if len(builder.marks):
            self._columns["marks"] = Ragged.from_rows(builder.marks, "sentence")
        self._characters: Ragged | None = None
        if len(builder.characters):
            name = "the character sequence of token"
            self._characters = Ragged.from_rows(builder.characters, name)
        super().__init__((self._tokens.lengths,), batch_size, seed, **options)

    def make_batch(self, rows: Integers) -> Batch:
        """Return inputs, and labels `(B, W)`, int32: the tag ids of the words, padded with -1.

        Inputs are `tokens` `(B, P)`; `starts` `(B, W)`, counted from 1; and `characters`
        `(B, P, C)` and `marks` `(B, P)`, if the sentences have them. `starts` is omitted if all
        words of the corpus are single tokens; W is P then. Inputs are int32, padded with 0.
        """
        width = self.bucket_width
        inputs = {name: column.pad(rows, width) for name, column in self._columns.items()}
        if self._characters is not None:
            num_tokens = inputs["tokens"].shape[1]
            inputs["characters"] = self._pad_characters(self._characters, rows, num_tokens)
        return inputs, self._labels.pad(rows, width) - np.int32(1)

    def _pad_characters(self, characters: Ragged, rows: Integers, width: int) -> NDArray[np.int32]:
        """Return the characters `(B, P, C)` of the tokens of the sentences with indices `rows`."""
        positions = np.arange(width)
        is_token = positions < self._tokens.lengths[rows, None]
        index = self._tokens.starts[rows, None] + np.where(is_token, positions, 0)
        padded = characters.pad(index.ravel(), self.bucket_width)
        return np.where(is_token[..., None], padded.reshape(*index.shape, -1), np.int32(0))
