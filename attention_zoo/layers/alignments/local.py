"""What local alignments share: the size of a window, and where the real memory lies."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.layers.alignments.base import State, Tensor


def check_window(window: int) -> int:
    """D, how far a window reaches to each side; ValueError unless it is an integer from 0 on."""
    if isinstance(window, bool) or not isinstance(window, int) or window < 0:
        raise ValueError(
            f"window must be an integer of at least 0, got {window!r}; a look sees up to "
            "2 * window + 1 places"
        )
    return window


def refuse_sequential(state: State | None) -> None:
    """ValueError where looks wait for each other: such scores are of all places."""
    if state is None:
        raise ValueError(
            "a local alignment shows a score the places of a window only, and a score that "
            "remembers earlier looks scores all places; take one that does not remember"
        )


def real_span(memory: Any) -> tuple[Tensor, Tensor]:
    """Where the real places of each row lie, so that padding on either side does not count.

    Args:
        memory: a `Memory`.

    Returns:
        The first real place, and how many places there are from it to the last real one, int32
        `(B, [1], 1, 1)`, or `()` where nothing is hidden.
    """
    length = ops.cast(ops.shape(memory.values)[-2], "int32")
    if memory.mask is None:
        return ops.zeros((), "int32"), length
    heads = (None,) * (len(memory.values.shape) - 3)
    mask = memory.mask[(slice(None), *heads, None)]  # (B, [1], 1, S)
    place = ops.arange(ops.shape(mask)[-1], dtype="int32")
    first = ops.min(ops.where(mask, place, length), axis=-1, keepdims=True, initial=length)
    end = ops.max(ops.where(mask, place + 1, 0), axis=-1, keepdims=True, initial=0)
    return first, ops.maximum(end - first, 0)
