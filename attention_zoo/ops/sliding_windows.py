"""Sliding windows over a sequence, as for a convolution by one matrix product."""

from __future__ import annotations

from keras import ops

from attention_zoo.typing import Tensor


def sliding_windows(x: Tensor, width: int) -> Tensor:
    """Concatenate each position with its neighbors, `(B, T, D)` to `(B, T, width D)`.

    A window of width w contains the positions `t - (w - 1) // 2` to `t + w // 2`, in order, with
    zeros beyond the ends. Sizes may be 0.

    Args:
        x: `(B, T, D)`.
        width: number of positions, at least 1.
    """
    before = (width - 1) // 2
    padded = ops.pad(x, ((0, 0), (before, width - 1 - before), (0, 0)))
    places = ops.shape(x)[1]
    return ops.concatenate([padded[:, n : n + places] for n in range(width)], axis=-1)


def sum_windows(x: Tensor, width: int) -> Tensor:
    """Return the sums of all windows of adjacent positions, `(B, T, ...)` to `(B, T - w + 1, ...)`.

    Args:
        x: `(B, T, ...)`, T at least `width - 1`.
        width: w, number of positions of a window, at least 1.
    """
    places = ops.shape(x)[1] - width + 1
    return sum(x[:, n : n + places] for n in range(width))


def widen_mask(mask: Tensor, width: int) -> Tensor:
    """Return which windows of a wide convolution contain a position, `(B, T + w - 1)`.

    Args:
        mask: `(B, T)`, True at positions of the sequence; padding is at the end.
        width: w, number of positions of a window, at least 1.
    """
    count = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
    length = ops.where(count > 0, count + width - 1, 0)
    return ops.arange(ops.shape(mask)[1] + width - 1, dtype="int32")[None] < length
