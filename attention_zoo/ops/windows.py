"""Windows of consecutive source positions, for local attention."""

from __future__ import annotations

import math
from typing import NamedTuple

from keras import ops

from attention_zoo.ops.arguments import is_symbolic
from attention_zoo.typing import Tensor


class Window(NamedTuple):
    """A window of W consecutive source positions for each step.

    Attributes:
        start: `(..., T, 1)` int32, the first position, which may be outside of the memory.
        inside: boolean, broadcasts against `(..., T, W)`: which of the W positions belong to the
            window; the last axis is W.
        centre: `(..., T, 1)`, the centre of the window, in positions; may be fractional.
    """

    start: Tensor
    inside: Tensor
    centre: Tensor

    @property
    def positions(self) -> Tensor:
        """Source positions in the window, `(..., T, W)` int32."""
        return self.start + ops.arange(self.inside.shape[-1], dtype="int32")


def gather_positions(x: Tensor, positions: Tensor, batch_dims: int) -> Tensor:
    """Gather entries of `x` at positions, as `tf.gather` with `batch_dims`.

    Args:
        x: `(*batch, S, ...)`.
        positions: `(*batch, ...)` integers; clipped to 0 .. S-1.
        batch_dims: number of leading axes that both share.

    Returns:
        `(*positions.shape, ...)`; zeros if S is 0.
    """
    *batch, length = ops.shape(x)[: batch_dims + 1]
    rest = ops.shape(x)[batch_dims + 1 :]
    row_shape = (*batch, *(1,) * (len(positions.shape) - batch_dims))
    rows = ops.reshape(ops.arange(math.prod(batch), dtype="int32"), row_shape)

    def gather() -> Tensor:
        flat = ops.reshape(x, (math.prod(batch) * length, *rest))
        return ops.take(flat, rows * length + ops.clip(positions, 0, length - 1), axis=0)

    def zeros() -> Tensor:
        return ops.zeros((*ops.shape(positions), *rest), x.dtype)

    if 0 in tuple(x.shape[: batch_dims + 1]):
        return zeros()
    return gather() if x.shape[batch_dims] else ops.cond(length > 0, gather, zeros)


def take_first(x: Tensor, size: Tensor, axis: int) -> Tensor:
    """Return the first `size` entries of an axis.

    With dynamic shapes, a size beyond the axis raises an error (on TensorFlow) or gives NaN (on
    JAX); `x[:size]` would truncate.
    """
    x = ops.convert_to_tensor(x)
    if is_symbolic(size):
        return ops.take(x, ops.arange(size, dtype="int32"), axis=axis)
    sizes = [size if n == axis else length for n, length in enumerate(ops.shape(x))]
    return ops.slice(x, [0] * len(sizes), sizes)


def scatter_window(weights: Tensor, window: Window, length: Tensor) -> Tensor:
    """Scatter the weights of a window, `(..., T, W)`, over the whole memory, `(..., T, S)`."""
    width = weights.shape[-1]
    offset = ops.arange(length, dtype="int32") - window.start  # of each source within the window
    full = gather_positions(weights, offset, batch_dims=len(weights.shape) - 1)
    inside = ops.logical_and(offset >= 0, offset < width)
    return ops.where(inside, full, 0)
