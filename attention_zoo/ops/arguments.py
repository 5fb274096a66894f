"""Argument validation."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from attention_zoo.typing import Shape


def whole_number(name: str, value: Any, low: int = 1) -> int:
    """Return the value as an int; raise ValueError unless it is an integer of at least `low`.

    NumPy integers are accepted; True, 2.0 and "2" are not.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    return int(value)


def number(value: Any) -> Any:
    """Return the value, or NaN if it is not a real number (True and "1" are not).

    Every comparison with NaN is False, so a range check rejects it.
    """
    return math.nan if isinstance(value, bool) or not isinstance(value, Real) else value


def rate(name: str, value: Any) -> Any:
    """Return the value; raise ValueError unless it is in [0, 1)."""
    if not 0 <= number(value) < 1:
        raise ValueError(f"{name} must be in [0, 1), got {value!r}")
    return value


def finite_number(name: str, value: Any, above: float = -math.inf) -> Any:
    """Return the value; raise ValueError unless it is finite and above `above`."""
    if not above < number(value) < math.inf:
        bound = "" if above == -math.inf else f" above {above:g}"
        raise ValueError(f"{name} must be a finite number{bound}, got {value!r}")
    return value


def check_shape(name: str, shape: Shape, expected: Shape) -> None:
    """Raise ValueError unless a tensor has the wanted shape.

    Args:
        name: name of the tensor, for the message.
        shape: shape of the tensor, None for unknown sizes.
        expected: the size of every axis, or a name ("batch") if any size is valid.
    """
    shape = tuple(shape)
    fits = len(shape) == len(expected) and all(
        size is None or isinstance(expected_size, str) or size == expected_size
        for size, expected_size in zip(shape, expected, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} must be ({', '.join(map(str, expected))}), got shape {shape}")


def sizes_or(names: tuple[str, ...], shape: Shape) -> Shape:
    """Return the known sizes, and names for the unknown ones, as `expected` of `check_shape`."""
    return tuple(name if size is None else size for name, size in zip(names, shape, strict=True))
