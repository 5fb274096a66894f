"""Argument validation."""

from __future__ import annotations

import math
import operator
from numbers import Integral, Real
from typing import Any

from keras import ops

from attention_zoo.typing import Shape


def whole_number(name: str, value: Any, low: int = 1, high: int | None = None) -> int:
    """Return the value as an int; raise ValueError unless it is an integer in `[low, high]`.

    NumPy integers and scalar integer tensors are accepted; True, 2.0 and "2" are not.
    """
    candidate: Any = None if isinstance(value, bool) else value
    try:
        integer = operator.index(candidate)
    except TypeError:
        got = format_value(value)
        raise ValueError(f"{name} must be an integer of at least {low}, got {got}") from None
    if integer < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    if high is not None and integer > high:
        raise ValueError(f"{name} must be at most {high}, got {value}")
    return integer


def format_value(value: Any) -> str:
    """Format a value for an error message: on one line, at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


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
        expected: the size of every axis; a name ("batch"), None or a tensor if any size is valid.
            `...` at the end permits more axes.
    """
    is_open = bool(expected) and expected[-1] is ...
    shape, sizes = tuple(shape), expected[:-1] if is_open else expected
    rank_fits = len(shape) >= len(sizes) if is_open else len(shape) == len(sizes)
    pairs = zip(shape, sizes, strict=False)
    if not rank_fits or any(isinstance(y, Integral) and x not in (None, y) for x, y in pairs):
        names = [str(size) if isinstance(size, (Integral, str)) else "any" for size in sizes]
        names += ["..."] * is_open
        raise ValueError(f"{name} must be ({', '.join(names)}), got shape {shape}")


def static_size(size: Any) -> int | None:
    """Return the size of an axis, or None if it is dynamic: a tensor, or symbolic (on JAX)."""
    return int(size) if isinstance(size, Integral) else None


def is_symbolic(size: Any) -> bool:
    """Return whether the size of an axis is symbolic (shape polymorphism of JAX).

    Symbolic sizes can be added and multiplied, but most comparisons raise an error.
    """
    return not (size is None or isinstance(size, Integral) or ops.is_tensor(size))


def sizes_or(names: tuple[str, ...], shape: Shape) -> Shape:
    """Return the known sizes, and names for the unknown ones, as `expected` of `check_shape`."""
    return tuple(name if size is None else size for name, size in zip(names, shape, strict=True))
