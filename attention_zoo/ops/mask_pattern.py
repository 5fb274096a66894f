"""Which places a query may look at, by their place alone, and which blocks of them hold any."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

Tensor = Any
Pair = tuple[Tensor, Tensor]


class MaskPattern(NamedTuple):
    """Which places a query may look at by their place alone.

    causal: the sources 0 .. t only. window: w, sources at most w places away; None for all.
    leading: how many places from the first on look at all others and are looked at by all,
    whatever the window.
    """

    causal: bool = False
    window: int | None = None
    leading: int = 0

    def mask(self, queries: Tensor, sources: Tensor) -> Tensor | None:
        """Booleans `(T, S)` for places `(T,)` and `(S,)`; None where all may be looked at."""
        queries, sources = queries[:, None], sources[None, :]
        seen = None
        if self.window is not None:
            seen = ops.abs(sources - queries) <= self.window
            if self.leading:
                leading = ops.minimum(sources, queries) < self.leading
                seen = ops.logical_or(seen, leading)
        if not self.causal:
            return seen
        past = sources <= queries
        return past if seen is None else ops.logical_and(seen, past)


FULL_ATTENTION = MaskPattern()


class BlockIterator(NamedTuple):
    """Visits each pair of a block of queries and a block of sources in which any is in reach.

    size: of a block of either. rows, columns: how many blocks there are of queries and sources.
    """

    reach: MaskPattern
    size: int
    rows: Tensor
    columns: Tensor

    def first(self) -> Pair:
        i = ops.zeros((), "int32")
        return i, self._begin(i)

    def going(self, pair: Pair) -> Tensor:
        """Whether this is a pair, and not the end."""
        return pair[0] < self.rows

    def next(self, pair: Pair) -> Pair:
        """The next sources in reach of these queries, else the first ones of the next queries."""
        i, j = pair[0], pair[1] + 1
        if self.reach.window is not None:
            j = ops.where(j < self._leading(), j, ops.maximum(j, self._nearest(i)))
        more = j < self._end(i)
        return ops.where(more, i, i + 1), ops.where(more, j, self._begin(i + 1))

    def _leading(self) -> int:
        """How many blocks hold leading places."""
        return -(-self.reach.leading // self.size)

    def _nearest(self, i: Tensor) -> Tensor:
        """The first block of sources within the window."""
        start = ops.maximum(i * self.size - self.reach.window, 0) // self.size
        return ops.where(i < self._leading(), 0, start)

    def _begin(self, i: Tensor) -> Tensor:
        """The first block of sources, the last where none is in reach: each row has a visit."""
        if self.reach.window is None or self.reach.leading:
            return ops.zeros_like(i)
        return ops.minimum(self._nearest(i), self.columns - 1)

    def _end(self, i: Tensor) -> Tensor:
        """One behind the last block of sources."""
        end = ops.zeros_like(i) + self.columns
        if self.reach.window is not None:
            last = (i * self.size + self.size - 1 + self.reach.window) // self.size
            end = ops.where(i < self._leading(), end, ops.minimum(end, last + 1))
        return ops.minimum(end, i + 1) if self.reach.causal else end
