from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.ops import sliding_windows
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
