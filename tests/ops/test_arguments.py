from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from attention_zoo.ops import check_shape, number, sizes_or, whole_number


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_become_ints(value: Any) -> None:
    assert type(whole_number("units", value)) is int
    assert whole_number("units", value) == 3


@pytest.mark.parametrize("value", [True, np.True_, 2.0, np.float32(2), math.nan, "2", None, [2]])
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    message = f"units must be an integer of at least 1, got {value!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        whole_number("units", value)


def test_a_whole_number_below_the_least_is_refused() -> None:
    assert whole_number("seed", 0, low=0) == 0
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        whole_number("seed", -1, low=0)


def test_what_is_no_number_compares_with_nothing() -> None:
    assert [number(value) for value in (0, 1.5, np.float32(2), math.inf)] == [0, 1.5, 2, math.inf]
    for value in (True, np.True_, "1", None, 1j, [1.0], math.nan):
        assert math.isnan(number(value))


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((2, 3), ("batch", "steps", 4)),
        ((2, 3, 4, 5), ("batch", "steps", 4)),
        ((2, 3, 5), ("batch", "steps", 4)),
        ((0, 3, 4), (2, "steps", 4)),
    ],
)
def test_other_shapes_are_refused(shape: tuple[int, ...], wanted: tuple[Any, ...]) -> None:
    message = f"query must be ({', '.join(map(str, wanted))}), got shape {shape}"
    with pytest.raises(ValueError, match=re.escape(message)):
        check_shape("query", shape, wanted)


def test_a_size_that_is_not_known_is_no_other_one() -> None:
    check_shape("query", (None, 3, None), (2, "steps", 4))
    check_shape("query", (2, 3), sizes_or(("batch", "steps"), (None, 3)))
    assert sizes_or(("batch", "steps"), (None, 0)) == ("batch", 0)
