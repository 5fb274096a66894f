"""Base classes of corpora: columns with one entry per example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from attention_zoo.data_cache import CorpusCache

ColumnFactory = Callable[[str], Any]
"""Function from the name of a column to an empty column, with the method `append`."""


def make_list(name: str) -> list[Any]:
    """Return a column in memory."""
    return []


class Examples:
    """Base class of corpora, which are frozen dataclasses.

    Attributes:
        columns: names of the fields with one entry per example; an optional one may be None.
        origin: source of the data, for display and for saved results.
        skipped: number of bad examples that were skipped on request.
        cache: cache of data that is computed from these examples; None if they are not cached.
    """

    columns: ClassVar[tuple[str, ...]]
    origin: str
    skipped: int
    cache: CorpusCache | None = None

    def __post_init__(self) -> None:
        sizes = {name: len(values) for name, values in self._columns().items()}
        if len({*sizes.values()}) > 1:
            counts = ", ".join(f"{size} {name}" for name, size in sizes.items())
            raise ValueError(f"{self.origin}: expected one of each per example, got {counts}")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep the short `__repr__`, which dataclasses would replace."""
        super().__init_subclass__(**kwargs)
        cls.__repr__ = Examples.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self):,} examples from {self.origin}>"

    def __len__(self) -> int:
        return len(getattr(self, self.columns[0]))

    def take(self, rows: Iterable[int]) -> Self:
        """Return the examples with indices `rows`."""
        rows = rows if isinstance(rows, range) else list(rows)
        taken = {name: _take(values, rows) for name, values in self._columns().items()}
        return cast(Self, replace(cast(Any, self), **taken))

    def _columns(self) -> dict[str, Any]:
        columns = {name: getattr(self, name) for name in self.columns}
        return {name: values for name, values in columns.items() if values is not None}


def _take(values: Any, rows: Sequence[int]) -> Any:
    if hasattr(values, "select"):  # an `ImageFile`, which is too large to copy
        return values.select(rows)
    if isinstance(rows, range) and rows.step == 1 and 0 <= rows.start <= rows.stop <= len(values):
        part = values[rows.start : rows.stop]  # faster than one by one
        return part.copy() if isinstance(values, np.ndarray) else [*part]
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]


class NumberedExamples(Examples):
    """Base class of corpora whose examples have line numbers.

    Attributes:
        lines: line number of each example in its file; if None, examples are counted from 1.
        files: file of each example; if None, all are from `origin`.
    """

    lines: Sequence[int] | None
    files: Sequence[str] | None

    def locations(self) -> list[str]:
        """Return the location of each example (`file:line`), for messages."""
        lines = self._columns()["lines"]
        return [f"{self.get_file(row)}:{line}" for row, line in enumerate(lines)]

    def get_file(self, row: int) -> str:
        """Return the file of an example, for messages."""
        return self.origin if self.files is None else self.files[row]

    def _columns(self) -> dict[str, Any]:
        columns = super()._columns()
        return columns | {"lines": columns.get("lines", range(1, len(self) + 1))}
