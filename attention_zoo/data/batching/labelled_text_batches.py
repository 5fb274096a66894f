"""Batches of labelled texts, or of documents of sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching.batching import Batches
from attention_zoo.data.batching.ragged import Integers, Ragged, Rows


class LabelledTextBatches(Batches):
    """Batches of texts and their classes, for training and evaluation.

    Args:
        columns: rows by column. "tokens": the token ids of each text. "labels": the class indices
            of each text, counted from 1; `[0]` for a text without a class. "sentence_lengths": the
            number of tokens of each sentence, for documents of sentences.
        num_classes: K, for texts with any number of classes; None for one class per text.
        batch_size, seed, options: see `Batches`. The numbers P of tokens of a text, L of sentences
            and W of tokens of a sentence are padded to multiples of `bucket_width`.

    Raises:
        ValueError: no texts, a text without tokens, or see `Batches`.
    """

    def __init__(
        self,
        columns: Mapping[str, Rows],
        batch_size: int,
        seed: int,
        num_classes: int | None = None,
        **options: Any,
    ) -> None:
        self._tokens = Ragged.from_rows(columns["tokens"], "text")
        self._labels = Ragged.from_rows(columns["labels"], "the labels of text")
        self._num_classes, self._sentences = num_classes, None
        sizes: tuple[Integers, ...] = (self._tokens.lengths,)
        if "sentence_lengths" in columns:
            self._sentences = Ragged.from_rows(columns["sentence_lengths"], "document")
            flat = self._sentences.flat.astype(np.int64)
            longest = np.maximum.reduceat(flat, self._sentences.starts)
            sizes = (longest, self._sentences.lengths.astype(np.int64))
        super().__init__(sizes, batch_size, seed, **options)

    def _compute_lengths(self) -> Integers:
        """Return the padded number of tokens of each text, over all sentences."""
        width = self.bucket_width
        lengths = np.prod([-(-size // width) * width for size in self._sizes], axis=0)
        return np.asarray(lengths)

    def _split(self, order: Integers, batch_tokens: int) -> Integers:
        """Split by the size of padded batches; for documents, sentences and tokens are padded."""
        if self._sentences is None:
            return super()._split(order, batch_tokens)
        width = self.bucket_width
        shapes = np.stack([-(-size[order] // width) * width for size in self._sizes], axis=1)
        starts, longest = [0], np.zeros(2, np.int64)
        for row, shape in enumerate(shapes):
            longest = np.maximum(longest, shape)
            if (row + 1 - starts[-1]) * longest.prod() > batch_tokens:
                starts.append(row)
                longest = shape
        return np.array([*starts, len(shapes)])

    @property
    def max_length(self) -> int:
        """Padded length of the longest text, or of the longest sentence of documents."""
        return int(-(-self._sizes[0].max(initial=0) // self.bucket_width) * self.bucket_width)

    def make_batch(self, rows: Integers) -> tuple[dict[str, NDArray[np.int32]], NDArray[np.int32]]:
        """Return inputs and labels of the texts with indices `rows`, int32.

        Inputs are `tokens`, `(B, P)`, or `(B, L, W)` for documents, padded with 0. Labels are class
        indices `(B,)` from 0 or, with `num_classes`, `(B, K)`: 1 for a class of the text, else 0.
        """
        labels = self._labels.pad(rows, 1)
        if self._num_classes is None:
            labels = labels[:, 0] - np.int32(1)
        else:
            labels = (labels[:, :, None] == np.arange(1, self._num_classes + 1)).any(axis=1)
        return {"tokens": self._pad_tokens(rows)}, labels.astype(np.int32, copy=False)

    def _pad_tokens(self, rows: Integers) -> NDArray[np.int32]:
        if self._sentences is None:
            return self._tokens.pad(rows, self.bucket_width)
        lengths = self._sentences.pad(rows, self.bucket_width)
        flat = np.concatenate([self._tokens.get(row) for row in rows])
        return pad_sentences(flat, lengths, self.bucket_width)


def pad_sentences(
    tokens: NDArray[Any], lengths: NDArray[np.int32], width: int
) -> NDArray[np.int32]:
    """Return documents of sentences as `(B, L, W)`, padded with 0.

    Args:
        tokens: the token ids of all sentences of all documents, concatenated.
        lengths: `(B, L)`, the number of tokens of each sentence, 0 for padding.
        width: W is a multiple of it.
    """
    longest = -(-int(lengths.max(initial=1)) // width) * width
    padded = np.zeros((*lengths.shape, longest), np.int32)
    padded[np.arange(longest) < lengths[..., None]] = tokens
    return padded
