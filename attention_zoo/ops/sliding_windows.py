"""What stands around each place, side by side: a convolution is one product with it."""

from __future__ import annotations

from typing import Any

from keras import ops

Tensor = Any


def sliding_windows(x: Tensor, width: int) -> Tensor:
    """Each place with those around it, `(B, T, D)` to `(B, T, width D)`; zeros beyond the ends.

    Of width w the places `t - (w - 1) // 2` to `t + w // 2`, in order. Any sizes, 0 too.

    Args:
        x: `(B, T, D)`.
        width: how many places, at least 1.
    """
    before = (width - 1) // 2
    padded = ops.pad(x, ((0, 0), (before, width - 1 - before), (0, 0)))
    places = ops.shape(x)[1]
    return ops.concatenate([padded[:, n : n + places] for n in range(width)], axis=-1)
