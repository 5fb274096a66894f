"""Token ids of several texts in one array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Row = Sequence[int] | NDArray[np.int32]
"""Token ids of a text."""


class FlatIds(NamedTuple):
    """Token ids of several texts in one array, which needs a tenth of the memory of lists.

    Attributes:
        ids: token ids of all texts, concatenated: int32; uint16 or uint32 if read from a file.
        lengths: number of ids of each text, int64; int32 if read from a file.
    """

    ids: NDArray[Any]
    lengths: NDArray[np.integer[Any]]

    @classmethod
    def from_rows(cls, rows: Sequence[Row]) -> Self:
        """Return rows of token ids as flat arrays."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        flat: Iterable[int] = chain.from_iterable(rows)
        return cls(np.fromiter(flat, np.int32, int(lengths.sum())), lengths)

    def to_rows(self) -> list[list[int]]:
        """Return one list of token ids per text."""
        values, ends = self.ids.tolist(), np.cumsum(self.lengths)
        starts = (ends - self.lengths).tolist()
        return [values[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]

    def append(self, token_id: int) -> Self:
        """Return the texts with a token added at the end of each."""
        ids = np.insert(self.ids, np.cumsum(self.lengths), token_id)
        return type(self)(ids, self.lengths + 1)

    def select(self, is_selected: NDArray[np.bool_]) -> Self:
        """Return the texts for which `is_selected`, one value per text, is true."""
        ids = self.ids[np.repeat(is_selected, self.lengths)]
        return type(self)(ids, self.lengths[is_selected])


def as_flat_ids(rows: FlatIds | Sequence[Row]) -> FlatIds:
    """Return rows of token ids as flat arrays, if they are not."""
    return rows if isinstance(rows, FlatIds) else FlatIds.from_rows(rows)


def concatenate_ids(parts: Sequence[FlatIds]) -> FlatIds:
    """Concatenate the texts of all parts."""
    if not parts:
        return FlatIds.from_rows([])
    ids, lengths = zip(*parts, strict=True)
    return FlatIds(np.concatenate(ids), np.concatenate(lengths))
