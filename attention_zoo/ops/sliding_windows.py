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
