"""Views of the text columns of a corpus, for training tokenizers without copying the texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, compress
from typing import Any

import numpy as np


class JoinedColumns(Sequence[str]):
    """The texts of several columns, one column after the other."""

    def __init__(self, columns: Sequence[Sequence[str]]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return sum(map(len, self._columns))

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._columns)

    def __getitem__(self, row: Any) -> Any:
        row = range(len(self))[row]
        for column in self._columns[:-1]:
            if row < len(column):
                return column[row]
            row -= len(column)
        return self._columns[-1][row]


class EvenSelection(Sequence[str]):
    """A number of texts, evenly spaced.

    Args:
        texts: the texts to select from.
        count: how many to select, at most the number of texts.
    """

    def __init__(self, texts: Sequence[str], count: int) -> None:
        self._texts, self._count = texts, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        # One pass is faster than an access by index for each text.
        size = len(self._texts)
        is_selected = np.zeros(size, bool)
        is_selected[np.arange(self._count) * size // self._count] = True
        return compress(self._texts, is_selected)

    def __getitem__(self, row: Any) -> Any:
        row = range(self._count)[row]
        return self._texts[row * len(self._texts) // self._count]


def get_texts(examples: Any, columns: Sequence[str]) -> Sequence[str]:
    """Return the texts of the columns of a corpus, one column after the other.

    A column of lists of texts, such as words or captions, is flattened in memory.
    """
    values = [getattr(examples, name) for name in columns]
    flat = [
        column if not len(column) or isinstance(column[0], str) else [*chain.from_iterable(column)]
        for column in values
    ]
    return flat[0] if len(flat) == 1 else JoinedColumns(flat)
