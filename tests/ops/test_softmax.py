from __future__ import annotations

import keras
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keras import ops

from attention_zoo.ops import at_least_float32, masked_softmax
from tests.layers.attention_case import softmax
from tests.layers.running import MODES, array, compiled, differentiable, double_precision

COMPILED = compiled(masked_softmax, MODES[1])  # as a graph (XLA on JAX)
LOWEST = np.finfo("float32").min


# With a finite mask value, masked positions would share the weight of the lowest scores.
@example(np.full((2, 5), LOWEST), np.array([[0, 1, 1, 1, 1], [1, 0, 0, 0, 0]], "bool"))
@given(
    hnp.arrays("float32", (2, 5), elements=st.floats(width=32, allow_nan=False)),
    hnp.arrays("bool", (2, 5)),
)
def test_rows_sum_to_one_for_finite_scores(scores: np.ndarray, mask: np.ndarray) -> None:
    """Masked scores may be infinite; rows with an infinite unmasked score are not checked."""
    weights = array(COMPILED(scores, mask))
    assert not weights[~mask].any()
    is_finite = np.isfinite(np.where(mask, scores, 0)).all(-1)
    np.testing.assert_allclose(weights[is_finite].sum(-1), mask[is_finite].any(-1), atol=1e-6)
    assert (weights[is_finite] >= 0).all()
    expected = softmax(scores[is_finite].astype("float64"), mask[is_finite])
    np.testing.assert_allclose(weights[is_finite], expected, atol=1e-6)


def test_precision_is_at_least_float32() -> None:
    for dtype in ("float16", "bfloat16", "float32"):
        weights = masked_softmax(ops.zeros((1, 2), dtype))
        assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    with double_precision():
        x = ops.zeros((1, 2), "float64")
        assert keras.backend.standardize_dtype(at_least_float32(x).dtype) == "float64"
        assert keras.backend.standardize_dtype(masked_softmax(x).dtype) == "float64"


def test_weights_keep_the_dtype_of_scores_under_another_floatx() -> None:
    floatx = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        scores = ops.convert_to_tensor(np.zeros((2, 3), "float32"))
        weights = masked_softmax(scores, ops.convert_to_tensor([[True, False, True]]))
    finally:
        keras.config.set_floatx(floatx)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"


def test_rows_of_length_one_and_zero() -> None:
    assert array(masked_softmax(ops.ones((2, 1)))).tolist() == [[1], [1]]
    assert array(masked_softmax(ops.ones((2, 1)), np.array([[True], [False]]))).tolist() == [
        [1],
        [0],
    ]
    assert tuple(masked_softmax(ops.ones((2, 0))).shape) == (2, 0)


@pytest.mark.parametrize("mode", MODES)
def test_masked_scores_have_no_gradient(mode: str) -> None:
    mask = np.array([[False, False], [True, False]])
    scores = np.array([[np.nan, np.inf], [1.0, -np.inf]], "float32")
    layer = keras.layers.Identity()
    weights, (gradient,), _ = differentiable(layer, lambda x: masked_softmax(x, mask), mode)(scores)
    assert weights.tolist() == [[0, 0], [1, 0]]
    # The one unmasked weight is 1 whatever its score.
    assert gradient.tolist() == [[0, 0], [0, 0]]
