from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import (
    check_shape,
    finite_number,
    is_symbolic,
    number,
    sizes_or,
    static_size,
    whole_number,
)
from tests.layers.running import JAX


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_number_returns_int(value: Any) -> None:
    assert type(whole_number("units", value)) is int
    assert whole_number("units", value) == 3


@pytest.mark.parametrize("value", [True, np.True_, 2.0, np.float32(2), math.nan, "2", None, [2]])
def test_whole_number_rejects_other_types(value: Any) -> None:
    message = f"units must be an integer of at least 1, got {value!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        whole_number("units", value)


def test_whole_number_rejects_values_below_low() -> None:
    assert whole_number("seed", 0, low=0) == 0
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        whole_number("seed", -1, low=0)


def test_whole_number_rejects_values_above_high() -> None:
    assert whole_number("seed", 5, high=5) == 5
    with pytest.raises(ValueError, match="seed must be at most 5, got 6"):
        whole_number("seed", 6, high=5)


def test_whole_number_truncates_long_values() -> None:
    with pytest.raises(ValueError, match=r"got \[0, 0, [0, ]*\.\.\.$"):
        whole_number("units", [0] * 100)


def test_number_returns_nan_for_other_types() -> None:
    assert [number(value) for value in (0, 1.5, np.float32(2), math.inf)] == [0, 1.5, 2, math.inf]
    for value in (True, np.True_, "1", None, 1j, [1.0], math.nan):
        assert math.isnan(number(value))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 3), ("batch", "steps", 4)),
        ((2, 3, 4, 5), ("batch", "steps", 4)),
        ((2, 3, 5), ("batch", "steps", 4)),
        ((0, 3, 4), (2, "steps", 4)),
    ],
)
def test_check_shape_rejects_other_shapes(
    shape: tuple[int, ...], expected: tuple[Any, ...]
) -> None:
    message = f"query must be ({', '.join(map(str, expected))}), got shape {shape}"
    with pytest.raises(ValueError, match=re.escape(message)):
        check_shape("query", shape, expected)


def test_unknown_sizes_match_any_size() -> None:
    check_shape("query", (None, 3, None), (2, "steps", 4))
    check_shape("query", (2, 3), (None, ops.convert_to_tensor(4)))
    check_shape("query", (2, 3), sizes_or(("batch", "steps"), (None, 3)))
    assert sizes_or(("batch", "steps"), (None, 0)) == ("batch", 0)


def test_an_ellipsis_permits_more_axes() -> None:
    for shape in ((2,), (2, 3), (None, 3, 4)):
        check_shape("state", shape, (2, ...))
    for wrong in ((), (3,), (3, 2)):
        with pytest.raises(ValueError, match=r"state must be \(2, \.\.\.\), got shape \("):
            check_shape("state", wrong, (2, ...))
    with pytest.raises(ValueError, match=r"state must be \(2, any, \.\.\.\), got shape \(2,\)"):
        check_shape("state", (2,), (2, None, ...))


@pytest.mark.parametrize("value", [True, "1", None, math.nan, math.inf, -math.inf])
def test_finite_number_rejects_other_values(value: Any) -> None:
    assert finite_number("scale", np.float16(3)) == 3
    message = f"scale must be a finite number, got {value!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        finite_number("scale", value)


def test_finite_number_rejects_the_bound() -> None:
    with pytest.raises(ValueError, match=r"^scale must be a finite number above 0, got 0$"):
        finite_number("scale", 0, above=0)


def test_only_integers_are_static_sizes() -> None:
    tensor = ops.convert_to_tensor(3)
    assert list(map(static_size, (3, np.int64(3), None, tensor))) == [3, 3, None, None]
    assert not any(map(is_symbolic, (3, np.int64(3), None, tensor)))


@pytest.mark.skipif(not JAX, reason="TensorFlow has no symbolic sizes")
def test_symbolic_size_is_not_static() -> None:
    import jax

    (size,) = jax.export.symbolic_shape("n")
    assert is_symbolic(size)
    assert static_size(size + 1) is None
