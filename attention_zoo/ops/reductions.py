"""Reductions that propagate NaN on every backend."""

from __future__ import annotations

from keras import ops

from attention_zoo.typing import Tensor


def max_or_nan(x: Tensor, axis: int) -> Tensor:
    """Return the maximum along an axis, NaN if an entry is NaN, -inf for an empty axis.

    `keras.ops.max` drops NaN under XLA on CPUs.

    Args:
        x: floats of any shape and dtype.
        axis: the axis to reduce.
    """
    maximum = ops.max(x, axis=axis, initial=float("-inf"))
    has_nan = ops.any(ops.isnan(x), axis=axis)
    return ops.where(has_nan, ops.full((), float("nan"), maximum.dtype), maximum)
