"""Positions as numbers: sines of a place, turns by it, and the distance of two places."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

Tensor = Any


def angles(places: Tensor, width: int, max_wavelength: float, dtype: str) -> Tensor:
    """`place / max_wavelength^(2 i / width)`, one for every two features.

    Args:
        places: `(..., L)`, any numbers.
        width: how many features there are; of an odd number the last one stands alone.

    Returns:
        `(..., L, ceil(width / 2))`.
    """
    rates = np.power(float(max_wavelength), -np.arange(0, width, 2) / width)
    return ops.cast(places, dtype)[..., None] * ops.convert_to_tensor(rates, dtype)


def sinusoids(angles: Tensor, width: int) -> Tensor:
    """Sine and cosine of every angle side by side, `(..., ceil(width / 2))` to `(..., width)`."""
    both = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.reshape(both, (*ops.shape(angles)[:-1], 2 * angles.shape[-1]))[..., :width]


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turns every two neighbouring features in their plane.

    Args:
        x: `(..., D)`, D even.
        angles: broadcast against `(..., D / 2)`.
    """
    shape = ops.shape(x)
    pairs = ops.reshape(x, (*shape[:-1], x.shape[-1] // 2, 2))
    sine = ops.sin(angles)
    across = ops.stack([-sine, sine], axis=-1)
    turned = pairs * ops.cos(angles)[..., None] + ops.flip(pairs, axis=-1) * across
    return ops.reshape(turned, shape)


def distances(steps: Tensor, sources: Tensor) -> Tensor:
    """`s - t`, how far source s stands behind query t, `(T, S)` int32."""
    queries = ops.arange(steps, dtype="int32")
    return ops.arange(sources, dtype="int32")[None, :] - queries[:, None]


def skew(x: Tensor, sources: Tensor) -> Tensor:
    """From columns of distances to columns of sources: every row moves one further to the left.

    Nothing of size T S D is made where a table has D features for every distance.

    Args:
        x: `(..., T, T + S + 1)`; its columns belong to the distances -T .. S.

    Returns:
        `(..., T, S)`: at t, s stands what `x` has at t for the distance s - t.
    """
    *rows, steps, width = ops.shape(x)
    flat = ops.reshape(x, (*rows, steps * width))
    flat = _columns(flat, steps, steps * (width - 1))
    return _columns(ops.reshape(flat, (*rows, steps, width - 1)), 0, sources)


def unskew(x: Tensor) -> Tensor:
    """From columns of sources to columns of distances: the way back of `skew`.

    Args:
        x: `(..., T, S)`.

    Returns:
        `(..., T, T + S + 1)`: at t and the distance d stands what `x` has at t, t + d, or 0.
    """
    *rows, steps, sources = ops.shape(x)
    wide = ops.concatenate([x, ops.zeros((*rows, steps, steps), x.dtype)], axis=-1)
    flat = ops.reshape(wide, (*rows, steps * (steps + sources)))
    flat = ops.concatenate([ops.zeros((*rows, steps), x.dtype), flat], axis=-1)
    return ops.reshape(flat, (*rows, steps, steps + sources + 1))


def stretch(x: Tensor, steps: Tensor, sources: Tensor) -> Tensor:
    """From columns of near distances to those of all: beyond either end, its column goes on.

    Args:
        x: `(..., 2 n + 1)`; its columns belong to the distances -n .. n.

    Returns:
        `(..., T + S + 1)`, of the distances -T .. S, as `skew` reads them.
    """
    reach, ends = x.shape[-1] // 2, ops.shape(x)[:-1]
    before, behind = _positive(steps - reach), _positive(sources - reach)
    first, last = _positive(reach - steps), reach + 1 + _lesser(reach, sources)
    every = [
        ops.broadcast_to(x[..., :1], (*ends, before)),
        x[..., first:last],
        ops.broadcast_to(x[..., -1:], (*ends, behind)),
    ]
    return ops.concatenate(every, axis=-1)


def shrink(x: Tensor, reach: int, steps: Tensor, sources: Tensor) -> Tensor:
    """From columns of all distances to those of near ones: what is beyond joins the ends.

    Args:
        x: `(..., T + S + 1)`, of the distances -T .. S, as `unskew` makes them.
        reach: n, 1 at least.

    Returns:
        `(..., 2 n + 1)`, of the distances -n .. n.
    """
    rows = ops.shape(x)[:-1]
    first, last = _positive(steps - reach), steps + 1 + _lesser(reach, sources)

    def zeros(count: Tensor) -> Tensor:
        return ops.zeros((*rows, count), x.dtype)

    near = _columns(x, first, last - first)
    unseen = zeros(_positive(reach - steps)), zeros(_positive(reach - sources))
    near = ops.concatenate([unseen[0], near, unseen[1]], axis=-1)
    before = ops.sum(_columns(x, 0, first), axis=-1, keepdims=True)
    behind = ops.sum(_columns(x, last, steps + sources + 1 - last), axis=-1, keepdims=True)
    return near + ops.concatenate([before, zeros(2 * reach - 1), behind], axis=-1)


def _columns(x: Tensor, first: Tensor, count: Tensor) -> Tensor:
    """`count` columns of the last axis; TensorFlow's gradient of a slice beats that of `x[...]`."""
    *rows, _ = ops.shape(x)
    return ops.slice(x, (*(0 for _ in rows), first), (*rows, count))


def _positive(count: Tensor) -> Tensor:
    """The count, 0 where it is below; it may be a tensor."""
    return max(count, 0) if isinstance(count, int) else ops.maximum(count, 0)


def _lesser(one: int, other: Tensor) -> Tensor:
    """The lesser of two counts, of which the second may be a tensor."""
    return min(one, other) if isinstance(other, int) else ops.minimum(one, other)


def linear_slopes(heads: int) -> list[float]:
    """A slope for each head: `2^(-8 h / H)` for h = 1 .. H, where H is a power of two.

    For other numbers, those of the next smaller power of two P, then every second one of 2 P.
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return slopes + [2 ** (-4 * h / power) for h in range(1, 2 * (heads - power), 2)]


def distance_buckets(buckets: int, max_distance: int) -> np.ndarray:
    """The bucket of every distance 0 .. max_distance, `(max_distance + 1,)` int32.

    The first half of the buckets hold one distance each, the others ever more, up to
    `max_distance`; the last one holds all from there on. In whole numbers: a logarithm would be
    rounded at the borders.
    """
    exact = buckets // 2
    grown = buckets - exact
    bucket, further = list(range(exact)), 0
    for distance in range(exact, max_distance + 1):
        # bucket exact + k begins at exact (max_distance / exact)^(k / grown)
        while further + 1 < grown and (
            max_distance ** (further + 1) * exact ** (grown - further - 1) <= distance**grown
        ):
            further += 1
        bucket.append(exact + further)
    return np.asarray(bucket, "int32")
