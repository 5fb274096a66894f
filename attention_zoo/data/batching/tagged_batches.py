"""Batches of tagged sentences, with one or more tokens per word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching.batching import Batch, Batches
from attention_zoo.data.batching.ragged import Integers, Ragged, RaggedBuilder, Row, Rows

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


def list_columns(
    sentences: Sequence[EncodedWords], labels: Sequence[Sequence[int]]
) -> dict[str, Sequence[Row]]:
    """Return encoded sentences and the tag ids of their words as columns, for `TaggedBatches`.

    Args:
        sentences: encoded sentences; all or none with characters, all or none with marks.
        labels: for each sentence the tag ids of its words, from 0.

    Raises:
        ValueError: different numbers of labels and sentences, or of labels and words.
    """
    if len(sentences) != len(labels):
        raise ValueError(
            f"expected one label sequence per sentence, got {len(labels)} label sequences and"
            f" {len(sentences)} sentences"
        )
    for number, (sentence, tags) in enumerate(zip(sentences, labels, strict=True), 1):
        if len(sentence.starts) != len(tags):
            raise ValueError(
                f"sentence {number} has {len(sentence.starts)} words but {len(tags)} labels"
            )
    columns: dict[str, Sequence[Row]] = {
        "tokens": [sentence.tokens for sentence in sentences],
        "labels": [[tag + 1 for tag in tags] for tags in labels],
        "starts": [[index + 1 for index in sentence.starts] for sentence in sentences],
    }
    if sentences and sentences[0].marks is not None:
        columns["marks"] = [sentence.marks or () for sentence in sentences]
    if sentences and sentences[0].characters is not None:
        tokens = (sentence.characters or () for sentence in sentences)
        columns["characters"] = [*chain.from_iterable(tokens)]
    return columns


class TaggedBatches(Batches):
    """Batches of tagged sentences.

    Args:
        sentences: encoded sentences; all or none with characters, all or none with marks. Or a
            mapping of the columns of `list_columns` to their rows.
        labels: for each sentence the tag ids of its words, from 0; empty with a mapping.
        batch_size, seed, options: see `Batches`. The numbers P of tokens and W of words in a
            sentence and C of characters in a token are padded to multiples of `bucket_width`.

    Raises:
        ValueError: no sentences, a sentence without words, different numbers of labels and words,
            or see `Batches`.
    """

    def __init__(
        self,
        sentences: Sequence[EncodedWords] | Mapping[str, RaggedBuilder],
        labels: Sequence[Sequence[int]],
        batch_size: int,
        seed: int,
        **options: Any,
    ) -> None:
        columns: Mapping[str, Rows]
        columns = sentences if isinstance(sentences, Mapping) else list_columns(sentences, labels)
        names = {"characters": "the character sequence of token"}
        ragged = {
            name: Ragged.from_rows(rows, names.get(name, "sentence"))
            for name, rows in columns.items()
        }
        self._labels, self._characters = ragged.pop("labels"), ragged.pop("characters", None)
        self._tokens = ragged["tokens"]
        if ragged["starts"].num_ids == self._tokens.num_ids:  # every word is a single token
            del ragged["starts"]
        self._columns = ragged
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
