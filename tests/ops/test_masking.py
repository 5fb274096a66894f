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
    project,
    propagate_nan,
    to_end,
    to_front,
    unmask_empty_rows,
    zero_masked,
)
from tests.layers.running import MODES, array, close, compiled, needs_dynamic_shapes, normal
from tests.layers.running import with_dynamic_shapes as dynamic


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


def test_propagate_nan_fills_rows_with_an_unmasked_nan() -> None:
    scores = np.array([[1, np.nan, 2], [np.nan, 0, 1], [np.inf, 1, -np.inf]], "float32")
    mask = np.array([[True, True, False], [False, True, True], [True, True, True]])
    result = array(propagate_nan(np.zeros((3, 3), "float32"), scores, mask))
    assert np.isnan(result).all(axis=-1).tolist() == [True, False, False]
    assert not result[1:].any()
    assert np.isnan(array(propagate_nan(np.zeros((3, 3), "float32"), scores))[1]).all()


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 4), (2, 1, 3, 4), (0, 3, 4), (2, 0, 4)])
@pytest.mark.parametrize("mode", MODES)
def test_project_multiplies_the_last_axis(mode: str, shape: tuple[int, ...]) -> None:
    x, kernel = normal(shape, (4, 5))
    actual = compiled(project, mode)(x, kernel)
    expected = np.matmul(x, kernel)
    assert actual.shape == expected.shape
    close(actual, ops.convert_to_tensor(expected), 1e-6)


def test_kernel_is_cast_to_the_dtype_of_the_input() -> None:
    x, kernel = normal((2, 3, 4), (4, 5))
    assert ops.dtype(project(ops.cast(x, "float16"), kernel)) == "float16"


@needs_dynamic_shapes
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.fast
def test_gradient_in_a_loop_of_dynamic_shapes(mode: str) -> None:
    """`keras.ops.matmul` fails here under XLA."""
    import tensorflow as tf

    from attention_zoo.ops import scan

    def compute(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            state, _ = scan(lambda s, x: (project(s + x, kernel), s), x[0], x, like=x[0])
            loss = tf.reduce_sum(state)
        return tape.gradient(loss, kernel)

    x, kernel = normal((3, 2, 5, 4), (4, 4))
    run = dynamic(compute, (None, None, None, 4), (4, 4), mode=mode)
    expected = array(compute(tf.constant(x), tf.constant(kernel)))
    np.testing.assert_allclose(array(run(x, kernel)), expected, rtol=1e-5, atol=1e-5)


def test_project_accepts_symbolic_inputs() -> None:
    outputs = project(keras.Input((None, 8)), np.ones((8, 3), "float32"))
    assert outputs.shape == (None, None, 3)
