"""Texts of a corpus as sequences that do not copy them, for learning vocabularies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, overload


class TextView(Sequence[str]):
    """Base class of sequences of texts that are looked up in other sequences."""

    @abstractmethod
    def get(self, row: int) -> str:
        """Return the text of a row, from 0."""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        rows = range(len(self))[index]
        return self.get(rows) if isinstance(rows, int) else [self.get(row) for row in rows]


class JoinedColumns(TextView):
    """The texts of several columns, one column after the other."""

    def __init__(self, columns: Sequence[Sequence[str]]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return sum(map(len, self._columns))

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._columns)

    def get(self, row: int) -> str:
        for column in self._columns:
            if row < len(column):
                return column[row]
            row -= len(column)
        raise IndexError(row)


class EvenSelection(TextView):
    """A number of texts, evenly spaced.

    Args:
        texts: the texts to select from.
        count: how many to select, at most the number of texts.
    """

    def __init__(self, texts: Sequence[str], count: int) -> None:
        self._texts, self._count = texts, count

    def __len__(self) -> int:
        return self._count

    def get(self, row: int) -> str:
        return self._texts[row * len(self._texts) // self._count]


def get_texts(examples: Any, columns: Sequence[str]) -> Sequence[str]:
    """Return the texts of the columns of a corpus, one column after the other.

    A column of lists of texts, such as words or captions, is flattened.
    """
    values = [getattr(examples, name) for name in columns]
    flat = [v if isinstance(v[0], str) else [*chain.from_iterable(v)] for v in values]
    return flat[0] if len(flat) == 1 else JoinedColumns(flat)
