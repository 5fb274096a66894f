"""Windows of consecutive source positions, for local attention."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from keras import ops

from attention_zoo.typing import Tensor


class Window(NamedTuple):
    """A window of W consecutive source positions for each step.

    start: `(..., T, 1)` int32, the first position, which may be outside of the memory.
    inside: boolean, broadcasts against `(..., T, W)`: which of the W positions belong to the
        window; the last axis is W.
    centre: `(..., T, 1)`, the centre of the window, in positions; may be fractional.
    """

    start: Tensor
    inside: Tensor
    centre: Tensor

    @property
    def places(self) -> Tensor:
        """Source positions in the window, `(..., T, W)` int32."""
        return self.start + ops.arange(self.inside.shape[-1], dtype="int32")


def take_places(x: Tensor, places: Tensor, lead: int) -> Tensor:
    """Gather entries of `x` at positions, each in its own row.

    Args:
        x: `(*lead, S, ...)`.
        places: positions, `(*lead, ...)` integers; clipped to 0 .. S-1.
        lead: number of leading axes that both share.

    Returns:
        `(*places.shape, ...)`; zeros if S is 0.
    """
    rows, length, rest = ops.shape(x)[:lead], ops.shape(x)[lead], ops.shape(x)[lead + 1 :]
    row = ops.reshape(
        ops.arange(_product(rows), dtype="int32"), (*rows, *(1,) * (len(places.shape) - lead))
    )

    def taken() -> Tensor:
        flat = ops.reshape(x, (_product(rows) * length, *rest))
        return ops.take(flat, row * length + ops.clip(places, 0, length - 1), axis=0)

    def nothing() -> Tensor:
        return ops.zeros((*ops.shape(places), *rest), x.dtype)

    if 0 in tuple(x.shape[: lead + 1]):
        return nothing()
    return taken() if x.shape[lead] else ops.cond(length > 0, taken, nothing)


def spread_window(weights: Tensor, window: Window, length: Tensor) -> Tensor:
    """Scatter the weights of a window, `(..., T, W)`, over the whole memory, `(..., T, S)`."""
    width = weights.shape[-1]
    slot = ops.arange(length, dtype="int32") - window.start
    spread = take_places(weights, slot, lead=len(weights.shape) - 1)
    seen = ops.logical_and(slot >= 0, slot < width)
    return ops.where(seen, spread, ops.zeros((), weights.dtype))


def _product(sizes: Any) -> Any:
    """Return the product of sizes that may be tensors."""
    if all(isinstance(size, int) for size in sizes):
        return math.prod(sizes)
    return ops.prod(ops.stack([ops.cast(size, "int32") for size in sizes]))
