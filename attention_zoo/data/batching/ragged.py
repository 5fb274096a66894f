"""Rows of token ids of different lengths, stored in one flat array."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.storage.integers import (
    IntegerFile,
    IntegerList,
    IntegerStore,
    shrink_integers,
)
from attention_zoo.data.tokenizers.flat_ids import FlatIds, Row, as_flat_ids
from attention_zoo.data.tokenizers.vocabulary import END, PAD, START

Integers = NDArray[np.integer[Any]]


class Ragged:
    """Rows of token ids of different lengths, stored in one flat array.

    Args:
        flat: the ids of all rows, concatenated.
        lengths: number of ids of each row.
        name: name of a row in error messages.

    Raises:
        ValueError: no rows, or an empty row.
    """

    def __init__(self, flat: NDArray[Any], lengths: Integers, name: str) -> None:
        if not len(lengths):
            raise ValueError("cannot make batches: there are no examples")
        if not lengths.all():
            raise ValueError(f"{name} {int(np.argmin(lengths)) + 1} is empty. Remove it.")
        self.lengths, self.flat = lengths, flat
        self.starts: Integers = shrink_integers(np.cumsum(lengths) - lengths)

    @classmethod
    def from_rows(cls, rows: Rows, name: str) -> Self:
        """Return rows as a `Ragged`; `name` is that of a row in error messages."""
        if isinstance(rows, RaggedBuilder):
            return cls(rows.flat, rows.lengths, name)
        builder = RaggedBuilder()
        builder.extend(rows)
        return cls(builder.flat, builder.lengths, name)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def num_ids(self) -> int:
        """Number of ids of all rows."""
        return len(self.flat)

    def get(self, row: int) -> NDArray[Any]:
        """Return the ids of a row."""
        start = int(self.starts[row])
        return self.flat[start : start + int(self.lengths[row])]

    def pad(self, rows: Integers, width: int, extra: int = 0) -> NDArray[np.int32]:
        """Return rows padded to a multiple of `width`, each with at least `extra` padding ids."""
        lengths = self.lengths[rows, None]
        num_blocks = -(-(int(lengths.max()) + extra) // width)
        positions = np.arange(num_blocks * width)
        # Positions past the end of a row are clipped to a valid index, then replaced by PAD.
        index = np.minimum(self.starts[rows, None] + positions, len(self.flat) - 1)
        ids = self.flat[index].astype(np.int32, copy=False)
        return np.where(positions < lengths, ids, np.int32(PAD))

    def shift(self, rows: Integers, width: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the rows preceded by a start token, and the rows followed by an end token."""
        labels = self.pad(rows, width, extra=1)
        tokens = np.empty_like(labels)
        tokens[:, 0], tokens[:, 1:] = START, labels[:, :-1]
        labels[np.arange(len(rows)), self.lengths[rows]] = END
        return tokens, labels


class RaggedBuilder:
    """Rows of token ids that are collected part by part, as flat arrays.

    A flat array needs a tenth of the memory of lists of Python integers.

    Args:
        path: prefix of the two files that hold the arrays; None keeps the arrays in memory.
        create: whether to create the files instead of reading them.
    """

    def __init__(self, path: str | Path | None = None, create: bool = True) -> None:
        self._flat: IntegerStore
        self._lengths: IntegerStore
        if path is None:
            self._flat, self._lengths = IntegerList(np.int32), IntegerList(np.int64)
        else:
            self._flat, self._lengths = (
                IntegerFile(Path(f"{path}.{name}.npy"), create) for name in ("ids", "lengths")
            )

    def extend(self, rows: FlatIds | Sequence[Row]) -> None:
        """Add rows."""
        ids, lengths = as_flat_ids(rows)
        self._flat.extend(ids)
        self._lengths.extend(lengths)

    def close(self) -> None:
        """Finish the files."""
        self._flat.close()
        self._lengths.close()

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def flat(self) -> NDArray[Any]:
        """The ids of all rows, concatenated: int32; uint16 or uint32 in a file."""
        return self._flat.read()

    @property
    def lengths(self) -> Integers:
        """Number of ids of each row."""
        return shrink_integers(self._lengths.read())


Rows = Sequence[Row] | RaggedBuilder
