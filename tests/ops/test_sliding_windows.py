from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.ops import sliding_windows, sum_windows, widen_mask
from tests.layers.running import array


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 1, 3), (0, 4, 3), (2, 0, 3)])
@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_oracle(shape: tuple[int, int, int], width: int) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    got = array(sliding_windows(x, width))
    assert got.shape == (*shape[:2], width * shape[2])
    for position in range(shape[1]):
        for number in range(width):
            source = position - (width - 1) // 2 + number
            inside = 0 <= source < shape[1]
            expected = x[:, source] if inside else np.zeros_like(x[:, position])
            part = got[:, position, number * shape[2] : (number + 1) * shape[2]]
            np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 3), (0, 4, 3), (2, 2, 3)])
def test_sums_of_windows(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    expected = [x[:, n : n + 3].sum(1) for n in range(shape[1] - 2)]
    got = array(sum_windows(x, 3))
    assert got.shape == (shape[0], len(expected), *shape[2:])
    for position, one in enumerate(expected):
        np.testing.assert_allclose(got[:, position], one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [1, 3])
def test_windows_of_a_wide_convolution_with_a_position(width: int) -> None:
    mask = np.arange(4) < np.array([[4], [2], [0]])
    padded = np.pad(mask, ((0, 0), (width - 1, width - 1)))
    expected = [padded[:, n : n + width].any(1) for n in range(4 + width - 1)]
    np.testing.assert_array_equal(array(widen_mask(mask, width)), np.stack(expected, 1))
    assert array(widen_mask(mask[:0, :0], width)).shape == (0, width - 1)
