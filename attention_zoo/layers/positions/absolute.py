"""Helpers of absolute positions: the position of each embedding."""

from __future__ import annotations

from typing import Any

from keras import backend, ops

from attention_zoo.ops import check_shape, sizes_or
from attention_zoo.typing import Tensor


def check_embeddings(shape: tuple[Any, ...]) -> None:
    """Raise ValueError unless the shape is (batch, steps, features)."""
    check_shape("inputs", shape, ("batch", "steps", "features"))


def absolute_positions(inputs: Tensor, start: Any) -> Tensor:
    """Return positions `start + t` of inputs `(B, T, D)`, int32.

    The shape is `(T,)`, or `(B, T)` if `start` is `(B,)`.
    """
    check_embeddings(inputs.shape)
    steps = ops.arange(ops.shape(inputs)[1], dtype="int32")
    if isinstance(start, int):
        return start + steps
    start = ops.convert_to_tensor(start)
    if "int" not in backend.standardize_dtype(start.dtype):
        raise ValueError(f"start must be an integer or integer tensor, got dtype {start.dtype}")
    if len(start.shape):
        check_shape("start", start.shape, sizes_or(("batch",), inputs.shape[:1]))
    return ops.cast(start, "int32")[..., None] + steps


def compute_positions(mask: Tensor) -> Tensor:
    """Return the position of each token among the unmasked ones, `(B, T)` int32.

    Padding gets the position of the token before it, or -1 before the first token.

    Args:
        mask: `(B, T)`.
    """
    return ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1
