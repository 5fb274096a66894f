from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from attention_zoo import ops as zoo_ops
from tests.layers.running import MODES, array, compiled


@pytest.mark.every_backend
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_max_or_nan(dtype: str, mode: str) -> None:
    x = ops.cast([[1.0, np.nan, -1.0], [2.0, -np.inf, 3.0], [-np.inf] * 3], dtype)
    result = compiled(lambda x: zoo_ops.max_or_nan(x, -1), mode)(x)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(array(ops.cast(result, "float32")), [np.nan, 3, -np.inf])


@pytest.mark.every_backend
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)], ids=str)
def test_max_or_nan_of_empty_axes(shape: tuple[int, int]) -> None:
    result = array(zoo_ops.max_or_nan(np.zeros(shape, "float32"), 1))
    np.testing.assert_array_equal(result, np.full(shape[:1], -np.inf))


@pytest.mark.every_backend
@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("dtype", ["float16", "bool"])
def test_repeat_row_repeats_tensor_and_mask(dtype: str, size: int) -> None:
    x = ops.cast(np.arange(6).reshape(1, 3, 2), dtype)
    mask = np.array([[True, False, True]])
    repeated = zoo_ops.repeat_row(zoo_ops.attach_mask(x, ops.convert_to_tensor(mask)), size)
    np.testing.assert_array_equal(array(repeated), np.repeat(array(x), size, axis=0))
    kept = array(zoo_ops.implicit_mask(repeated))
    np.testing.assert_array_equal(kept, np.repeat(mask, size, axis=0))
