from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import (
    as_boolean_mask,
    attach_mask,
    causal_mask,
    combine_masks,
    implicit_mask,
    merge_masks,
    to_end,
    to_front,
    unmask_empty_rows,
    zero_masked,
)
from tests.layers.running import MODES, array, compiled


def test_integers_and_booleans_are_masks() -> None:
    for mask in ([[1, 0]], [[True, False]], np.array([[7, 0]], "int64")):
        got = ops.convert_to_numpy(as_boolean_mask(mask, "mask", (1, 2)))
        assert got.dtype == bool
        assert got.tolist() == [[True, False]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_float_masks_are_rejected_with_two_suggestions(dtype: str) -> None:
    mask = ops.zeros((1, 2), dtype)
    with pytest.raises(
        ValueError, match=f"my_mask has dtype {dtype}.*`my_mask > 0`.*`my_mask >= 0`"
    ):
        as_boolean_mask(mask, "my_mask", (1, 2))


def test_shapes_are_checked() -> None:
    ones = np.ones((2, 3), "bool")
    assert tuple(as_boolean_mask(ones, "mask", (2, None)).shape) == (2, 3)
    assert tuple(as_boolean_mask(ones[:1], "mask", (2, 3)).shape) == (1, 3)
    with pytest.raises(ValueError, match=r"\(2, 3\), but \(2, 2, 3\) is.*mask\[None\]"):
        as_boolean_mask(ones, "mask", (2, 2, 3))
    with pytest.raises(ValueError, match=r"mask has shape \(2, 3\), but \(2, 4\) is expected"):
        as_boolean_mask(ones, "mask", (2, 4))
    with pytest.raises(ValueError, match=r"\(2, 3\), but \(2,\) is expected"):
        as_boolean_mask(ones, "mask", (2,))


def test_masks_combine_by_and() -> None:
    a, b = np.array([True, True, False]), np.array([True, False, False])
    assert combine_masks() is None
    assert combine_masks(None, None) is None
    assert combine_masks(None, a, None) is a
    assert ops.convert_to_numpy(combine_masks(a, None, b)).tolist() == [True, False, False]


def test_attach_mask_sets_the_implicit_mask() -> None:
    x, mask = ops.ones((1, 2, 3)), ops.ones((1, 2), "bool")
    assert implicit_mask(None) is None
    assert implicit_mask(x) is None
    assert attach_mask(x, None) is x
    assert implicit_mask(x) is None
    assert attach_mask(x, mask) is x
    assert implicit_mask(x) is mask


def test_explicit_mask_is_broadcast() -> None:
    x = ops.ones((2, 3, 4))
    for mask in ([[True], [False]], [[True, False, True]], [[False]]):
        got = merge_masks("mask", np.array(mask), x)
        np.testing.assert_array_equal(ops.convert_to_numpy(got), np.broadcast_to(mask, (2, 3)))


def test_causal_mask() -> None:
    got = ops.convert_to_numpy(causal_mask(2, 3))
    assert got.tolist() == [[[True, False, False], [True, True, False]]]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_zero_masked_replaces_any_value_with_zero(dtype: str) -> None:
    x = np.array([[[1.0, 2.0], [9.0, 9.0]]])
    if dtype != "int32":
        x[0, 1] = np.nan, np.inf
    x = ops.cast(ops.convert_to_tensor(x.astype("float32")), dtype)
    got = zero_masked(x, ops.convert_to_tensor([[True, False]]))
    assert keras.backend.standardize_dtype(got.dtype) == dtype
    assert ops.convert_to_numpy(ops.cast(got, "float32")).tolist() == [[[1, 2], [0, 0]]]
    assert zero_masked(x, None) is x


@pytest.mark.parametrize("mode", MODES)
def test_masked_positions_are_moved_to_either_end(mode: str) -> None:
    mask = np.array([[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
    behind = array(compiled(to_front, mode)(mask))
    np.testing.assert_array_equal(behind, [[1, 2, 0, 3], [0, 3, 1, 2], range(4), range(4)])
    before = array(compiled(to_end, mode)(mask))
    np.testing.assert_array_equal(before, [[0, 3, 1, 2], [1, 2, 0, 3], range(4), range(4)])
    for shape in ((0, 4), (2, 0)):
        assert compiled(to_front, mode)(np.ones(shape, bool)).shape == shape


def test_fully_masked_rows_get_one_valid_position() -> None:
    mask = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 1]], "bool")
    expected = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 1]], "bool")
    np.testing.assert_array_equal(array(unmask_empty_rows(ops.convert_to_tensor(mask))), expected)
    for shape in ((0, 3), (2, 0)):
        assert unmask_empty_rows(ops.zeros(shape, "bool")).shape == shape
