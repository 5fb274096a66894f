"""Position arithmetic: sinusoids, rotations and relative distances."""

from __future__ import annotations

import numpy as np
from keras import ops

from attention_zoo.ops.arguments import is_symbolic
from attention_zoo.typing import Tensor


def angles(positions: Tensor, width: int, max_wavelength: float, dtype: str) -> Tensor:
    """Compute `position / max_wavelength^(2 i / width)`, one angle for every two features.

    Args:
        positions: positions, `(..., L)`, of any numeric dtype.
        width: number of features; if it is odd, the last feature has an angle of its own.

    Returns:
        `(..., L, ceil(width / 2))`.
    """
    rates = np.power(float(max_wavelength), -np.arange(0, width, 2) / width)
    return ops.cast(positions, dtype)[..., None] * ops.convert_to_tensor(rates, dtype)


def sinusoids(angles: Tensor, width: int, interleaved: bool = True) -> Tensor:
    """Return sines and cosines of angles, `(..., ceil(width / 2))` to `(..., width)`.

    They alternate; without `interleaved`, all sines precede all cosines.
    """
    if not interleaved:
        return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)[..., :width]
    both = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.reshape(both, (*ops.shape(angles)[:-1], 2 * angles.shape[-1]))[..., :width]


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate each pair of adjacent features by its angle.

    Args:
        x: `(..., D)`, D even.
        angles: broadcast against `(..., D / 2)`.
    """
    shape = ops.shape(x)
    pairs = ops.reshape(x, (*shape[:-1], x.shape[-1] // 2, 2))
    sine = ops.sin(angles)
    across = ops.stack([-sine, sine], axis=-1)
    rotated = pairs * ops.cos(angles)[..., None] + ops.flip(pairs, axis=-1) * across
    return ops.reshape(rotated, shape)


def distances(steps: Tensor, sources: Tensor) -> Tensor:
    """Compute `s - t`, the distance from query t to source s, `(T, S)` int32."""
    queries = ops.arange(steps, dtype="int32")
    return ops.arange(sources, dtype="int32")[None, :] - queries[:, None]


def skew(x: Tensor, sources: Tensor) -> Tensor:
    """Convert columns of distances to columns of sources, shifting each row one further left.

    With D features per distance, this avoids a tensor of size T S D.

    Args:
        x: `(..., T, T + S + 1)`; its columns are the distances -T .. S.

    Returns:
        `(..., T, S)`: the entry at t, s is that of `x` at t for the distance s - t.
    """
    *rows, steps, width = ops.shape(x)
    flat = ops.reshape(x, (*rows, steps * width))
    flat = _slice_columns(flat, steps, steps * (width - 1))
    return _slice_columns(ops.reshape(flat, (*rows, steps, width - 1)), 0, sources)


def unskew(x: Tensor) -> Tensor:
    """Convert columns of sources to columns of distances: the inverse of `skew`.

    Args:
        x: `(..., T, S)`.

    Returns:
        `(..., T, T + S + 1)`: the entry at t and distance d is that of `x` at t, t + d; 0 if there
        is none.
    """
    *rows, steps, sources = ops.shape(x)
    wide = ops.concatenate([x, ops.zeros((*rows, steps, steps), x.dtype)], axis=-1)
    flat = ops.reshape(wide, (*rows, steps * (steps + sources)))
    flat = ops.concatenate([ops.zeros((*rows, steps), x.dtype), flat], axis=-1)
    return ops.reshape(flat, (*rows, steps, steps + sources + 1))


def stretch(x: Tensor, steps: Tensor, sources: Tensor) -> Tensor:
    """Extend columns of the distances -n .. n to all distances, by repeating the end columns.

    Args:
        x: `(..., 2 n + 1)`; its columns are the distances -n .. n.

    Returns:
        `(..., T + S + 1)`, for the distances -T .. S, as `skew` takes them.
    """
    max_distance, ends = x.shape[-1] // 2, ops.shape(x)[:-1]
    if is_symbolic(steps) or is_symbolic(sources):
        return ops.take(x, _clip_all_distances(max_distance, steps, sources), axis=-1)
    first = _positive(max_distance - steps)
    last = x.shape[-1] - _positive(max_distance - sources)
    before = ops.broadcast_to(x[..., :1], (*ends, _positive(steps - max_distance)))
    after = ops.broadcast_to(x[..., -1:], (*ends, _positive(sources - max_distance)))
    return ops.concatenate([before, x[..., first:last], after], axis=-1)


def shrink(x: Tensor, max_distance: int, steps: Tensor, sources: Tensor) -> Tensor:
    """Reduce columns of all distances to -n .. n, by adding those beyond to the end columns.

    Args:
        x: `(..., T + S + 1)`, for the distances -T .. S, as `unskew` returns them.
        max_distance: n, at least 1.

    Returns:
        `(..., 2 n + 1)`, for the distances -n .. n.
    """
    rows = ops.shape(x)[:-1]
    if is_symbolic(steps) or is_symbolic(sources):
        columns = _clip_all_distances(max_distance, steps, sources)
        return ops.matmul(x, ops.one_hot(columns, 2 * max_distance + 1, dtype=x.dtype))
    missing = _positive(max_distance - steps), _positive(max_distance - sources)
    first, last = _positive(steps - max_distance), steps + 1 + max_distance - missing[1]

    def zeros(count: Tensor) -> Tensor:
        return ops.zeros((*rows, count), x.dtype)

    inner = _slice_columns(x, first, last - first)
    inner = ops.concatenate([zeros(missing[0]), inner, zeros(missing[1])], axis=-1)
    before = ops.sum(_slice_columns(x, 0, first), axis=-1, keepdims=True)
    after = ops.sum(_slice_columns(x, last, steps + sources + 1 - last), axis=-1, keepdims=True)
    return inner + ops.concatenate([before, zeros(2 * max_distance - 1), after], axis=-1)


def _clip_all_distances(max_distance: int, steps: Tensor, sources: Tensor) -> Tensor:
    """Return the column among the distances -n .. n of each of the distances -T .. S."""
    distances = ops.arange(steps + sources + 1, dtype="int32") - steps
    return ops.clip(distances, -max_distance, max_distance) + max_distance


def _slice_columns(x: Tensor, first: Tensor, count: Tensor) -> Tensor:
    """Slice columns of the last axis; TensorFlow's gradient is cheaper than that of `x[...]`."""
    *rows, _ = ops.shape(x)
    return ops.slice(x, (*(0 for _ in rows), first), (*rows, count))


def count_blocks(length: Tensor, size: Tensor) -> Tensor:
    """Return the number of blocks of `size` positions, at least one; both may be tensors."""
    return 1 + _positive(-(-length // size) - 1)


def _positive(count: Tensor) -> Tensor:
    """Return `max(count, 0)`; the count may be a tensor."""
    return max(count, 0) if isinstance(count, int) else ops.maximum(count, 0)


def linear_slopes(heads: int) -> list[float]:
    """Return ALiBi's slope of each head: `2^(-8 h / H)` for h = 1 .. H, if H is a power of two.

    For other H, those of the next smaller power of two P, then every second one of 2 P.
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return slopes + [2 ** (-4 * h / power) for h in range(1, 2 * (heads - power), 2)]


def distance_buckets(buckets: int, max_distance: int) -> np.ndarray:
    """Return T5's bucket of every distance 0 .. max_distance, `(max_distance + 1,)` int32.

    The first half of the buckets contain one distance each, the others logarithmically growing
    ranges up to `max_distance`; the last one also contains all longer distances. Integer arithmetic
    avoids rounding errors of a logarithm at the boundaries.
    """
    exact = buckets // 2
    num_log_buckets = buckets - exact
    bucket, log_bucket = list(range(exact)), 0
    for distance in range(exact, max_distance + 1):
        # bucket exact + k begins at exact (max_distance / exact)^(k / grown)
        while log_bucket + 1 < num_log_buckets and (
            max_distance ** (log_bucket + 1) * exact ** (num_log_buckets - log_bucket - 1)
            <= distance**num_log_buckets
        ):
            log_bucket += 1
        bucket.append(exact + log_bucket)
    return np.asarray(bucket, "int32")
