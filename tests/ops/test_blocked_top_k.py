"""The greatest few against a stable sort, ties and nothing included."""

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.ops import blocked_top_k
from tests.layers.running import array


def rows(kind: str, size: int) -> np.ndarray:
    rng = np.random.default_rng(size)
    x = rng.normal(size=(3, 4, size))
    if kind == "ties":
        x = rng.integers(0, 4, (3, 4, size)).astype("float64")
    if kind == "nearly nothing":
        x = np.where(rng.random(x.shape) < 3 / size, x, -np.inf)
    if kind == "at the end":
        x[..., -3:] += 20
    if kind == "in one block":
        x[..., 130:150] += 20
    return x.astype("float32")


@pytest.mark.parametrize("kind", ["normal", "ties", "nearly nothing", "at the end", "in one block"])
@pytest.mark.parametrize(("size", "count"), [(1, 1), (300, 5), (1290, 5), (4096, 16), (8001, 1)])
def test_it_is_a_stable_sort(kind: str, size: int, count: int) -> None:
    x = rows(kind, size)
    values, positions = blocked_top_k(x, count)
    expected = np.argsort(-x, axis=-1, kind="stable")[..., :count]
    np.testing.assert_array_equal(array(values), np.take_along_axis(x, expected, axis=-1))
    np.testing.assert_array_equal(array(positions), expected)


def test_no_row() -> None:
    values, positions = blocked_top_k(np.zeros((0, 2, 2000), "float32"), 3)
    assert values.shape == positions.shape == (0, 2, 3)
