"""Helpers of local alignments: window size and the span of unmasked source positions."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.typing import State, Tensor


def refuse_sequential(state: State | None) -> None:
    """Raise ValueError if the steps run sequentially: a stateful score needs all positions."""
    if state is None:
        raise ValueError(
            "a local alignment computes scores within a window only, but a stateful score needs "
            "all source positions; use a stateless score"
        )


def unmasked_span(memory: Any) -> tuple[Tensor, Tensor]:
    """Return the span of unmasked source positions in each row, without padding on either side.

    Args:
        memory: a `Memory`.

    Returns:
        The first unmasked position, and the number of positions from it to the last unmasked one,
        int32 `(B, [1], 1, 1)`, or `()` without a mask.
    """
    length = ops.cast(ops.shape(memory.values)[-2], "int32")
    if memory.mask is None:
        return ops.zeros((), "int32"), length
    heads = (None,) * (len(memory.values.shape) - 3)
    mask = memory.mask[(slice(None), *heads, None)]  # (B, [1], 1, S)
    positions = ops.arange(ops.shape(mask)[-1], dtype="int32")
    first = ops.min(ops.where(mask, positions, length), axis=-1, keepdims=True, initial=length)
    end = ops.max(ops.where(mask, positions + 1, 0), axis=-1, keepdims=True, initial=0)
    return first, ops.maximum(end - first, 0)
