"""Gradients of functions of tensors."""

from __future__ import annotations

import doctest
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.ops import gradients
from attention_zoo.ops.gradients import gradient


def compute(function: Any, x: Any) -> np.ndarray:
    return ops.convert_to_numpy(gradient(function, ops.convert_to_tensor(x, "float32")))


def test_gradient_of_the_sum() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    np.testing.assert_allclose(compute(lambda x: x**3, x), 3 * x**2)
    np.testing.assert_allclose(compute(lambda x: ops.sum(x[0] * x[1]), x), x[::-1])


def test_gradient_of_gathered_rows_is_dense_and_0_elsewhere() -> None:
    result = compute(lambda x: ops.take(x, ops.array([0, 0, 2]), axis=0), np.ones((4, 2)))
    assert result.tolist() == [[2, 2], [0, 0], [1, 1], [0, 0]]
    assert not compute(lambda x: ops.ones((3,)), np.ones((2,))).any()


def test_gradient_through_a_model_with_variables() -> None:
    dense = keras.layers.Dense(2)
    x = np.array([[1.0, -1.0, 2.0]], "float32")
    dense(x)
    expected = ops.convert_to_numpy(dense.kernel).sum(1)[None]
    np.testing.assert_allclose(compute(dense, x), expected, rtol=1e-6)


def test_seeds_are_usable_after_the_gradient() -> None:
    """On JAX, a seed that is updated within the gradient would keep a traced value."""
    dropout = Dropout(0.5, seed=1)
    x = ops.ones((2, 50))
    assert compute(lambda x: dropout(x, training=True), x).any()
    assert np.isfinite(ops.convert_to_numpy(dropout(x, training=True))).all()


def test_integers_are_rejected() -> None:
    with pytest.raises(ValueError, match="x must have a floating-point dtype, got int32"):
        gradient(lambda x: x, ops.ones((2,), "int32"))


def test_examples_of_the_docstrings() -> None:
    results = doctest.testmod(gradients)
    assert results.attempted
    assert not results.failed
