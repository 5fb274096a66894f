"""Draws that depend on nothing but their counters: the same on every backend, in any batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

MULTIPLIERS = (0x7FEB352D, 0x846CA68B)
SHIFTS = (16, 15, 16)
GOLDEN = 0x9E3779B9  # 2 ** 32 / golden ratio: spreads neighbouring counters


def scramble(bits: Any) -> Any:
    """A permutation of uint32 whose every output bit depends on every input bit.

    Two rounds of xor with the shifted self and multiplication by an odd number.
    """
    for shift, multiplier in zip(SHIFTS, (*MULTIPLIERS, None), strict=True):
        bits = ops.bitwise_xor(bits, ops.right_shift(bits, ops.cast(shift, "uint32")))
        if multiplier is not None:
            bits = bits * ops.cast(multiplier, "uint32")
    return bits


def draw_bits(
    counters: Sequence[Any],
    keys: Any,
    shape: Sequence[Any],
    start: Sequence[Any] | None = None,
) -> Any:
    """uint32 `(B, *shape)`, every value as likely as any other; arguments as in `uniform`."""
    bits = scramble(ops.cast(keys, "uint32"))
    for counter in counters:
        bits = scramble(bits + ops.cast(counter, "uint32") * ops.cast(GOLDEN, "uint32"))
    for first, size in zip(start or (0,) * len(shape), shape, strict=True):
        places = ops.cast(first + ops.arange(size, dtype="int32"), "uint32")
        places = places * ops.cast(GOLDEN, "uint32")
        bits = scramble(bits[..., None] + places)
    return bits


def uniform(
    counters: Sequence[Any],
    keys: Any,
    shape: Sequence[Any],
    start: Sequence[Any] | None = None,
) -> Any:
    """Numbers between 0 and 1, neither reached, for each of B keys.

    Args:
        counters: integers, or scalar integer tensors, that the draws depend on beside the key.
        keys: `(B,)` integers.
        shape: of the draws of one key.
        start: where in a larger shape these draws stand; at its beginning when None.

    Returns:
        `(B, *shape)` float32, on a grid of 2 ** -23.
    """
    bits = draw_bits(counters, keys, shape, start)
    grid = ops.cast(ops.right_shift(bits, ops.cast(9, "uint32")), "float32")
    return (grid + 0.5) * 2.0**-23


def kept(seed: Any, rate: float, shape: Sequence[Any], start: Sequence[Any] | None = None) -> Any:
    """What dropout keeps: booleans, each drawn for its place and False with a chance of `rate`.

    XLA draws them where they are used, and keeps none of the numbers in memory.

    Args:
        seed: two integers.
        rate: from 0 to 1.
        shape, start: as in `uniform`.
    """
    limit = ops.cast(min(round(rate * 2**32), 2**32 - 1), "uint32")
    return draw_bits((seed[0], seed[1]), ops.zeros((1,), "uint32"), shape, start)[0] >= limit


def gumbel(counters: Sequence[Any], keys: Any, shape: tuple[int, ...]) -> Any:
    """Standard Gumbel noise; arguments and shape as `uniform`."""
    return -ops.log(-ops.log(uniform(counters, keys, shape)))
