"""Reductions that propagate NaN on every backend."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.typing import Tensor


def max_or_nan(x: Tensor, axis: int, initial: float = float("-inf"), **kwargs: Any) -> Tensor:
    """Return the maximum along an axis, NaN if an entry is NaN.

    `keras.ops.max` drops NaN under XLA on CPUs.

    Args:
        x: floats.
        axis: the axis to reduce.
        initial: the maximum of an empty axis, and a lower bound of all others.
        **kwargs: `keepdims`.
    """
    maximum = ops.max(x, axis=axis, initial=initial, **kwargs)
    has_nan = ops.any(ops.isnan(x), axis=axis, **kwargs)
    return ops.where(has_nan, ops.full((), float("nan"), maximum.dtype), maximum)
