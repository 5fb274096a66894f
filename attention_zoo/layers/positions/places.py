"""What absolute positions share: which place each embedding has."""

from __future__ import annotations

from typing import Any

from keras import ops

Tensor = Any


def check_embeddings(shape: tuple[Any, ...]) -> None:
    """ValueError unless the shape is that of sequences of vectors."""
    if len(shape) != 3:
        raise ValueError(f"inputs must be (batch, steps, features), got shape {tuple(shape)}")


def places(inputs: Tensor, start: Any) -> Tensor:
    """`start + t` for the steps t of `(B, T, D)`: `(T,)`, or `(B, T)` for `(B,)` starts; int32."""
    steps = ops.arange(ops.shape(inputs)[1], dtype="int32")
    if isinstance(start, int):
        return start + steps
    return ops.cast(start, "int32")[..., None] + steps
