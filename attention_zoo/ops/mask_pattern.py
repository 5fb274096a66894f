"""Mask patterns defined by positions (causal, window), and iteration over their blocks."""

from __future__ import annotations

from typing import NamedTuple

from keras import ops

from attention_zoo.ops.masking import combine_masks
from attention_zoo.typing import Tensor

Pair = tuple[Tensor, Tensor]

BLOCK_SIZE, MIN_BLOCK_SIZE = 256, 64


class MaskPattern(NamedTuple):
    """Attention mask defined by positions.

    causal: query t attends to the sources 0 .. t only. window: w, queries attend to sources at most
    w positions away; None for all. leading: number of positions at the start that attend to all
    positions and are attended by all, whatever the window.
    """

    causal: bool = False
    window: int | None = None
    leading: int = 0

    @property
    def block_size(self) -> int:
        """Number of positions in a block: 256, or the window if it is smaller, but at least 64."""
        if self.window is None:
            return BLOCK_SIZE
        return min(BLOCK_SIZE, max(MIN_BLOCK_SIZE, self.window))

    def skips_blocks(self, num_sources: int) -> bool:
        """Return whether the window skips some of the source blocks of each query block."""
        if self.window is None:
            return False
        columns, near, leading = (
            -(-length // self.block_size) for length in (num_sources, self.window, self.leading)
        )
        return 1 + 2 * near + leading < columns

    def mask(self, queries: Tensor, sources: Tensor) -> Tensor | None:
        """Return booleans `(T, S)` for positions `(T,)` and `(S,)`; None if nothing is masked."""
        queries, sources = queries[:, None], sources[None, :]
        mask = None
        if self.window is not None:
            mask = ops.abs(sources - queries) <= self.window
            if self.leading:
                mask = ops.logical_or(mask, ops.minimum(sources, queries) < self.leading)
        return combine_masks(mask, sources <= queries if self.causal else None)


FULL_ATTENTION = MaskPattern()


class BlockIterator(NamedTuple):
    """Iterator over the pairs of query and source blocks that are not fully masked.

    size: positions in a block. rows, columns: number of query blocks and of source blocks.
    """

    pattern: MaskPattern
    size: Tensor
    rows: Tensor
    columns: Tensor

    def first(self) -> Pair:
        i = ops.zeros((), "int32")
        return i, self._begin(i)

    def is_valid(self, pair: Pair) -> Tensor:
        """Return whether the pair is valid; False after the last pair."""
        return pair[0] < self.rows

    def next(self, pair: Pair) -> Pair:
        """Return the next pair: the next source block, else the first of the next query block."""
        i, j = pair[0], pair[1] + 1
        if self.pattern.window is not None:
            j = ops.where(j < self._leading(), j, ops.maximum(j, self._nearest(i)))
        more = j < self._end(i)
        return ops.where(more, i, i + 1), ops.where(more, j, self._begin(i + 1))

    def _leading(self) -> Tensor:
        """Return the number of blocks with leading positions."""
        return -(-self.pattern.leading // self.size)

    def _nearest(self, i: Tensor) -> Tensor:
        """Return the first source block within the window."""
        start = ops.maximum(i * self.size - self.pattern.window, 0) // self.size
        return ops.where(i < self._leading(), 0, start)

    def _begin(self, i: Tensor) -> Tensor:
        """Return the first source block to visit; the last block if all are masked.

        Every query block needs at least one visit.
        """
        if self.pattern.window is None or self.pattern.leading:
            return ops.zeros_like(i)
        return ops.minimum(self._nearest(i), self.columns - 1)

    def _end(self, i: Tensor) -> Tensor:
        """Return one past the last source block to visit."""
        end = ops.zeros_like(i) + self.columns
        if self.pattern.window is not None:
            last = (i * self.size + self.size - 1 + self.pattern.window) // self.size
            end = ops.where(i < self._leading(), end, ops.minimum(end, last + 1))
        return ops.minimum(end, i + 1) if self.pattern.causal else end
