"""Score biases of blockwise attention: their blocks, and the gradients of these blocks.

Shape letters: N and M are the numbers of query blocks and of source blocks, G of key heads.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.ops.mask_pattern import Pair
from attention_zoo.ops.positions import skew, unskew
from attention_zoo.typing import Tensor


class DistanceBias:
    """Bias by distance, `(H, T + S + 1)`, for the distances -T .. S."""

    def __init__(self, blocks: Any) -> None:
        self.blocks = blocks

    def split(self, bias: Tensor) -> Tensor:
        """Split the bias into rows of distances, `(N + M - 1, H, 2 block + 1)`.

        Each row contains a block of distances, the next block, and a 0.
        """
        blocks = self.blocks
        bias = ops.pad(bias[:, :-1], ((0, 0), (blocks.query_padding[1], blocks.source_padding[1])))
        bias = ops.reshape(bias, (blocks.heads, blocks.rows + blocks.columns, blocks.size))
        rows = [bias[:, :-1], bias[:, 1:], ops.zeros_like(bias[:, 1:, :1])]
        return ops.transpose(ops.concatenate(rows, axis=-1), (1, 0, 2))

    def merge(self, x: Tensor) -> Tensor:
        """Add up the gradients of overlapping rows: the transpose of `split`."""
        blocks = self.blocks
        x = ops.transpose(x, (1, 0, 2))
        first = ops.pad(x[..., : blocks.size], ((0, 0), (0, 1), (0, 0)))
        second = ops.pad(x[..., blocks.size : -1], ((0, 0), (1, 0), (0, 0)))
        length = (blocks.rows + blocks.columns) * blocks.size
        flat = ops.pad(ops.reshape(first + second, (blocks.heads, length)), ((0, 0), (0, 1)))
        before = blocks.query_padding[1]
        return flat[:, before : before + blocks.steps + blocks.sources + 1]

    def index(self, pair: Pair) -> Tensor:
        """Return the row of a pair of blocks, which depends on their distance."""
        return pair[1] - pair[0] + self.blocks.rows - 1

    def expand(self, row: Tensor) -> Tensor:
        """Return the bias of one pair of blocks, `(1, G, H / G, block, block)`."""
        blocks = self.blocks
        rows = ops.broadcast_to(row[:, None], (blocks.heads, blocks.size, ops.shape(row)[-1]))
        shape = (1, blocks.groups, blocks.group_size, blocks.size, blocks.size)
        return ops.reshape(skew(rows, blocks.size), shape)

    def reduce(self, by_scores: Tensor) -> Tensor:
        """Sum the gradients with respect to the scores over equal distances.

        The gradients are `(B, G, H / G block, block)`.
        """
        blocks = self.blocks
        shape = (blocks.heads, blocks.size, blocks.size)
        by_scores = ops.reshape(ops.sum(by_scores, axis=0), shape)
        return ops.sum(unskew(by_scores), axis=1)


class PairBias:
    """Bias of each query and source, `(B or 1, H or 1, T, S)`."""

    def __init__(self, blocks: Any, bias: Tensor) -> None:
        self.blocks = blocks
        self.batch, self.heads = ops.shape(bias)[0], bias.shape[1]
        self.is_shared = bias.shape[0] == 1  # by all examples

    def split(self, bias: Tensor) -> Tensor:
        """Split the bias into pairs of blocks, `(N M, B or 1, H or 1, block, block)`."""
        blocks, size = self.blocks, self.blocks.size
        bias = ops.pad(bias, ((0, 0), (0, 0), blocks.query_padding, blocks.source_padding))
        bias = ops.reshape(bias, (self.batch, self.heads, blocks.rows, size, blocks.columns, size))
        bias = ops.transpose(bias, (2, 4, 0, 1, 3, 5))
        num_pairs = blocks.rows * blocks.columns
        return ops.reshape(bias, (num_pairs, self.batch, self.heads, size, size))

    def merge(self, x: Tensor) -> Tensor:
        """Invert `split`."""
        blocks, size = self.blocks, self.blocks.size
        x = ops.reshape(x, (blocks.rows, blocks.columns, self.batch, self.heads, size, size))
        x = ops.transpose(x, (2, 3, 0, 4, 1, 5))
        x = ops.reshape(x, (self.batch, self.heads, blocks.rows * size, blocks.columns * size))
        return x[:, :, : blocks.steps, : blocks.sources]

    def index(self, pair: Pair) -> Tensor:
        """Return the row of a pair of blocks."""
        return pair[0] * self.blocks.columns + pair[1]

    def expand(self, row: Tensor) -> Tensor:
        """Return the bias of one pair of blocks, which broadcasts to `(B, G, H / G, ...)`."""
        blocks, size = self.blocks, self.blocks.size
        heads = (1, 1) if self.heads == 1 else (blocks.groups, blocks.group_size)
        return ops.reshape(row, (self.batch, *heads, size, size))

    def reduce(self, by_scores: Tensor) -> Tensor:
        """Sum the gradients with respect to the scores over the axes of size 1.

        The gradients are `(B, G, H / G block, block)`.
        """
        blocks, size = self.blocks, self.blocks.size
        by_scores = ops.reshape(by_scores, (blocks.batch, blocks.heads, size, size))
        if self.heads == 1:
            by_scores = ops.sum(by_scores, axis=1, keepdims=True)
        return ops.sum(by_scores, axis=0, keepdims=True) if self.is_shared else by_scores
