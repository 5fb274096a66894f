"""Counter-based random numbers: the same on every backend and in any batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from keras import ops

Sizes = Sequence[Any]

MULTIPLIERS = (0x7FEB352D, 0x846CA68B)
SHIFTS = (16, 15, 16)
GOLDEN = 0x9E3779B9  # 2 ** 32 / golden ratio: spreads neighbouring counters


def scramble(bits: Any) -> Any:
    """Hash uint32 bits: a permutation in which every output bit depends on every input bit.

    Two rounds of xor with the shifted bits and multiplication by an odd number, and a last xor.
    """
    for shift, multiplier in zip(SHIFTS, (*MULTIPLIERS, None), strict=True):
        bits = ops.bitwise_xor(bits, ops.right_shift(bits, ops.cast(shift, "uint32")))
        if multiplier is not None:
            bits = bits * ops.cast(multiplier, "uint32")
    return bits


def random_bits(counters: Sequence, keys: Any, shape: Sizes, start: Sizes | None = None) -> Any:
    """Return uniformly random uint32 `(B, *shape)`; arguments as in `uniform`."""
    bits = scramble(ops.cast(keys, "uint32"))
    for counter in counters:
        bits = scramble(bits + ops.cast(counter, "uint32") * ops.cast(GOLDEN, "uint32"))
    for first, size in zip(start or (0,) * len(shape), shape, strict=True):
        indices = ops.cast(first + ops.arange(size, dtype="int32"), "uint32")
        indices = indices * ops.cast(GOLDEN, "uint32")
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
    grid = ops.cast(ops.right_shift(bits, ops.cast(9, "uint32")), "float32")
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
    limit = ops.cast(min(round(rate * 2**32), 2**32 - 1), "uint32")
    return random_bits((seed[0], seed[1]), ops.zeros((1,), "uint32"), shape, start)[0] >= limit


def sample_uniform(seed: Any, shape: Sizes) -> Any:
    """Return random numbers in (0, 1), both ends excluded, as `(*shape)` float32.

    Unlike `keras.random.uniform`, the same seed gives the same numbers with and without XLA.

    Args:
        seed: two integers.
        shape: shape of the numbers.
    """
    return uniform((seed[0], seed[1]), ops.zeros((1,), "uint32"), shape)[0]


def sample_normal(seed: Any, shape: Sizes) -> Any:
    """Return standard normal noise; arguments, shape and dtype as in `sample_uniform`."""
    return math.sqrt(2) * ops.erfinv(2 * sample_uniform(seed, shape) - 1)


def sample_gumbel(seed: Any, shape: Sizes) -> Any:
    """Return standard Gumbel noise; arguments, shape and dtype as in `sample_uniform`."""
    return gumbel((seed[0], seed[1]), ops.zeros((1,), "uint32"), shape)[0]


def gumbel(counters: Sequence, keys: Any, shape: Sizes) -> Any:
    """Return standard Gumbel noise; arguments and shape as in `uniform`."""
    return -ops.log(-ops.log(uniform(counters, keys, shape)))
