"""Batches of pairs of texts with a label or a number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching.batching import Batches
from attention_zoo.data.batching.ragged import Integers, Ragged, Rows


class MatchedBatches(Batches):
    """Batches of pairs of texts, for training and evaluation of `models.Matcher`.

    Args:
        first, second: token ids of the texts of each pair.
        labels: class index (integers) or number (float32) of each pair.
        batch_size, seed, options: see `Batches`. The numbers S and T of tokens are padded to
            multiples of `bucket_width`.

    Raises:
        ValueError: no pairs, an empty text, different numbers of texts and labels, or see
            `Batches`.
    """

    def __init__(
        self,
        first: Rows,
        second: Rows,
        labels: NDArray[Any],
        batch_size: int,
        seed: int,
        **options: Any,
    ) -> None:
        if not len(first) == len(second) == len(labels):
            raise ValueError(
                f"expected two texts and a label for each pair, got {len(first)} first texts,"
                f" {len(second)} second texts and {len(labels)} labels"
            )
        self._first = Ragged.from_rows(first, "the first text of pair")
        self._second = Ragged.from_rows(second, "the second text of pair")
        self._labels = labels.astype(np.float32 if labels.dtype.kind == "f" else np.int32)
        super().__init__((self._second.lengths, self._first.lengths), batch_size, seed, **options)

    def make_batch(self, rows: Integers) -> tuple[dict[str, NDArray[np.int32]], NDArray[Any]]:
        """Return `({"first": (B, S), "second": (B, T)}, labels (B,))`, token ids padded with 0."""
        width = self.bucket_width
        inputs = {"first": self._first.pad(rows, width), "second": self._second.pad(rows, width)}
        return inputs, self._labels[rows]
