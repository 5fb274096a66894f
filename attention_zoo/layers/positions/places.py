"""What absolute positions share: which place each embedding has."""

from __future__ import annotations

from typing import Any

from keras import backend, ops

from attention_zoo.ops import check_shape, sizes_or

Tensor = Any


def check_embeddings(shape: tuple[Any, ...]) -> None:
    """ValueError unless the shape is that of sequences of vectors."""
    check_shape("inputs", shape, ("batch", "steps", "features"))


def places(inputs: Tensor, start: Any) -> Tensor:
    """`start + t` for the steps t of `(B, T, D)`: `(T,)`, or `(B, T)` for `(B,)` starts; int32."""
    check_embeddings(inputs.shape)
    steps = ops.arange(ops.shape(inputs)[1], dtype="int32")
    if isinstance(start, int):
        return start + steps
    start = ops.convert_to_tensor(start)
    if "int" not in backend.standardize_dtype(start.dtype):
        raise ValueError(f"start must be an integer, or integers, got dtype {start.dtype}")
    if len(start.shape):
        check_shape("start", start.shape, sizes_or(("batch",), inputs.shape[:1]))
    return ops.cast(start, "int32")[..., None] + steps


def places_of(mask: Tensor) -> Tensor:
    """The place of each token among those that `mask (B, T)` shows, `(B, T)` int32.

    Padding has no place of its own: that of the token before it, -1 in front of the first.
    """
    return ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1
