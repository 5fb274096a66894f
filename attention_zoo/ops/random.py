"""Counter-based random numbers: the same on every backend and in any batch."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from attention_zoo.ops.arguments import static_size

Sizes = Sequence[Any]

# NumPy scalars, because `ops.cast` of a Python number adds another operation to a graph.
MULTIPLIERS = (np.uint32(0x7FEB352D), np.uint32(0x846CA68B))
SHIFTS = (np.uint32(16), np.uint32(15), np.uint32(16))
GOLDEN = np.uint32(0x9E3779B9)  # 2 ** 32 / golden ratio: spreads neighbouring counters


def scramble(bits: Any) -> Any:
    """Hash uint32 bits: a permutation in which every output bit depends on every input bit.

    Two rounds of xor with the shifted bits and multiplication by an odd number, and a last xor.
    """
    for shift, multiplier in zip(SHIFTS, (*MULTIPLIERS, None), strict=True):
        bits = ops.bitwise_xor(bits, ops.right_shift(bits, shift))
        if multiplier is not None:
            bits = bits * multiplier
    return bits


def random_bits(counters: Sequence, keys: Any, shape: Sizes, start: Sizes | None = None) -> Any:
    """Return uniformly random uint32 `(B, *shape)`; arguments as in `uniform`."""
    bits = scramble(ops.cast(keys, "uint32"))
    for counter in counters:
        bits = scramble(bits + ops.cast(counter, "uint32") * GOLDEN)
    for first, size in zip(start or (0,) * len(shape), shape, strict=True):
        indices = ops.cast(first + ops.arange(size, dtype="int32"), "uint32")
        indices = indices * GOLDEN
        bits = scramble(bits[..., None] + indices)
    return bits


def uniform(counters: Sequence, keys: Any, shape: Sizes, start: Sizes | None = None) -> Any:
    """Return random numbers in (0, 1), both ends excluded, for each of B keys.

    Args:
        counters: integers, or scalar integer tensors, which seed the numbers together with the key.
        keys: `(B,)` integers.
        shape: shape of the numbers of one key.
        start: index of the first number in a larger shape; zeros when None.

    Returns:
        `(B, *shape)` float32, on a grid of 2 ** -23.
    """
    bits = random_bits(counters, keys, shape, start)
    grid = ops.cast(ops.right_shift(bits, np.uint32(9)), "float32")
    return (grid + 0.5) * 2.0**-23


def sample_keep_mask(seed: Any, rate: float, shape: Sizes, start: Sizes | None = None) -> Any:
    """Return a dropout mask: booleans that are False with probability `rate`.

    Each depends only on the seed and its index. XLA computes them where they are used, and stores
    none of them.

    Args:
        seed: two integers.
        rate: from 0 to 1.
        shape, start: as in `uniform`.
    """
    if not _is_tensorflow_graph():
        return _compute_keep_mask(seed, _compute_threshold(rate), shape, start)
    static_shape = [static_size(size) for size in shape]
    return _call_keep_mask_graph(seed, rate, shape, start or (0,) * len(shape), static_shape)


def sample_keep_mask_like(seed: Any, rate: float, x: Any) -> Any:
    """Return a dropout mask of the shape of `x`; the other arguments as in `sample_keep_mask`.

    Dynamic sizes are read as one tensor, which takes fewer graph operations.
    """
    if not _is_tensorflow_graph():
        return sample_keep_mask(seed, rate, ops.shape(x))
    import tensorflow as tf

    return _call_keep_mask_graph(seed, rate, tf.shape(x), (0,) * len(x.shape), x.shape)


def _compute_threshold(rate: float) -> Any:
    """Return the number below which random bits drop an entry."""
    return np.uint32(min(round(rate * 2**32), 2**32 - 1))


def _is_tensorflow_graph() -> bool:
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()


def _compute_keep_mask(seed: Any, limit: Any, shape: Sizes, start: Sizes | None) -> Any:
    """Return booleans, True where the random bits are at least `limit`."""
    return random_bits((seed[0], seed[1]), np.zeros(1, "uint32"), shape, start)[0] >= limit


def _call_keep_mask_graph(seed: Any, rate: float, shape: Any, start: Any, static_shape: Any) -> Any:
    """Compute the mask in a graph that is traced once, because a model has many masks."""
    import tensorflow as tf

    sizes, starts = (tf.convert_to_tensor(x, "int32") for x in (shape, start))
    graph = _make_keep_mask_graph(len(static_shape))
    keep = graph(tf.cast(seed, "uint32"), _compute_threshold(rate), sizes, starts)
    keep.set_shape(static_shape)
    return keep


@functools.cache
def _make_keep_mask_graph(rank: int) -> Any:
    """Return a graph for masks with `rank` axes."""
    import tensorflow as tf

    def compute(seed: Any, limit: Any, sizes: Any, starts: Any) -> Any:
        return _compute_keep_mask(seed, limit, tf.unstack(sizes, rank), tf.unstack(starts, rank))

    return tf.function(compute, autograph=False)


def sample_uniform(seed: Any, shape: Sizes) -> Any:
    """Return random numbers in (0, 1), both ends excluded, as `(*shape)` float32.

    Unlike `keras.random.uniform`, the same seed gives the same numbers with and without XLA.

    Args:
        seed: two integers.
        shape: shape of the numbers.
    """
    return uniform((seed[0], seed[1]), np.zeros(1, "uint32"), shape)[0]


def sample_normal(seed: Any, shape: Sizes) -> Any:
    """Return standard normal noise; arguments, shape and dtype as in `sample_uniform`."""
    return math.sqrt(2) * ops.erfinv(2 * sample_uniform(seed, shape) - 1)


def sample_gumbel(seed: Any, shape: Sizes) -> Any:
    """Return standard Gumbel noise; arguments, shape and dtype as in `sample_uniform`."""
    return gumbel((seed[0], seed[1]), np.zeros(1, "uint32"), shape)[0]


def gumbel(counters: Sequence, keys: Any, shape: Sizes) -> Any:
    """Return standard Gumbel noise; arguments and shape as in `uniform`."""
    return -ops.log(-ops.log(uniform(counters, keys, shape)))
