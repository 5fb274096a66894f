"""Arguments: what cannot be is refused where it comes in, by one clear error."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

Shape = tuple[Any, ...]


def whole_number(name: str, value: Any, low: int = 1) -> int:
    """The value as an int; ValueError unless it is an integer of at least `low`.

    NumPy's integers are integers; True, 2.0 and "2" are none.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    return int(value)


def number(value: Any) -> Any:
    """The value; NaN, for which no comparison holds, where it is no number (as True and "1")."""
    return math.nan if isinstance(value, bool) or not isinstance(value, Real) else value


def rate(name: str, value: Any) -> Any:
    """The value; ValueError unless it is a share, from 0 to below 1."""
    if not 0 <= number(value) < 1:
        raise ValueError(f"{name} must be in [0, 1), got {value!r}")
    return value


def check_shape(name: str, shape: Shape, wanted: Shape) -> None:
    """ValueError unless a tensor has the shape that is wanted.

    Args:
        name: of the tensor, for the message.
        shape: its own, None where a size is not known.
        wanted: of every axis the size, or a name ("batch") where any size is right.
    """
    shape = tuple(shape)
    fits = len(shape) == len(wanted) and all(
        got is None or isinstance(want, str) or got == want
        for got, want in zip(shape, wanted, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} must be ({', '.join(map(str, wanted))}), got shape {shape}")


def sizes_or(names: tuple[str, ...], shape: Shape) -> Shape:
    """The sizes that are known, and the names of those that are not, as `check_shape` wants."""
    return tuple(name if size is None else size for name, size in zip(names, shape, strict=True))
