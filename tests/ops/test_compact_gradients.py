"""Operations with gradients that take few graph operations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import (
    add_same_shape,
    layer_normalization,
    masked_softmax,
    use_compact_gradients,
    where_or_zero,
)

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="graphs of TensorFlow"
)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4)).astype("float32")
MASK = RNG.random((2, 3, 4)) > 0.4
MASK[0, 0] = False
WITH_NAN = np.where(MASK, X, np.nan).astype("float32")
VECTORS = list(RNG.normal(size=(2, 4)).astype("float32"))


def normalize(mask: Any, *tensors: Any) -> Any:
    return layer_normalization(*tensors, 1e-6)


CASES: dict[str, tuple[Callable[..., Any], Any, list[Any]]] = {
    "add": (lambda mask, x, y: add_same_shape(x, y), MASK, [X, X[::-1]]),
    "where_or_zero": (where_or_zero, MASK, [X]),
    "where_or_zero of rows": (where_or_zero, MASK[..., :1], [X]),
    "where_or_zero of fewer axes": (where_or_zero, MASK[1], [X]),
    "where_or_zero with NaN": (where_or_zero, MASK, [WITH_NAN]),
    "softmax": (lambda mask, x: masked_softmax(x, mask), MASK, [X]),
    "softmax with NaN": (lambda mask, x: masked_softmax(x, mask), MASK, [WITH_NAN]),
    "softmax of one source": (lambda mask, x: masked_softmax(x, mask), MASK[..., :1], [X[..., :1]]),
    "softmax without sources": (
        lambda mask, x: masked_softmax(x, mask),
        MASK[..., :0],
        [X[..., :0]],
    ),
    "normalization": (normalize, MASK, [X, *VECTORS]),
    "normalization of vectors": (normalize, MASK, [X[0], *VECTORS]),
    "normalization of an empty batch": (normalize, MASK, [X[:0], *VECTORS]),
}


def differentiate(
    function: Callable[..., Any], mask: Any, tensors: list[Any], compact: bool
) -> tuple[list[Any], int]:
    """Compute value, first and second derivatives in a graph with dynamic shapes.

    Returns:
        The three, flattened to a list, and the number of graph operations.
    """
    import tensorflow as tf

    def make_spec(x: Any) -> Any:
        return tf.TensorSpec([None] * (x.ndim - 1) + [x.shape[-1]], x.dtype)

    @tf.function(input_signature=[make_spec(x) for x in (mask, *tensors)])
    def compute(mask: Any, *tensors: Any) -> Any:
        with use_compact_gradients() if compact else nullcontext(), tf.GradientTape() as outer:
            outer.watch(tensors)
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                value = function(mask, *tensors)
                loss = ops.sum(ops.cos(value))
            gradients = tape.gradient(loss, tensors, unconnected_gradients="zero")
            total = sum(ops.sum(gradient * gradient) for gradient in gradients)
        return value, gradients, outer.gradient(total, tensors, unconnected_gradients="zero")

    results = [np.asarray(x) for x in tf.nest.flatten(compute(mask, *tensors))]
    return results, len(compute.get_concrete_function().graph.get_operations())


@pytest.mark.parametrize("name", CASES)
def test_derivatives_equal_those_of_plain_operations(name: str) -> None:
    plain, plain_count = differentiate(*CASES[name], compact=False)
    compact, count = differentiate(*CASES[name], compact=True)
    np.testing.assert_array_equal(compact[0], plain[0])
    for got, expected in zip(compact, plain, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert (
        count < plain_count or name == "softmax of one source"
    )  # plain weights there are constants


@pytest.mark.parametrize("function", [where_or_zero, lambda mask, x: masked_softmax(x, mask)])
def test_gradient_has_the_shape_of_x_if_the_mask_is_larger(function: Callable[..., Any]) -> None:
    import tensorflow as tf

    x = tf.constant(X[:1])
    with use_compact_gradients(), tf.GradientTape() as tape:
        tape.watch(x)
        value = function(ops.convert_to_tensor(MASK), x)
    assert tuple(value.shape) == MASK.shape
    assert tape.gradient(value, x).shape == x.shape


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_normalization_computes_in_at_least_float32(dtype: str) -> None:
    import tensorflow as tf

    x, gamma, beta = (tf.cast(tensor, dtype) for tensor in (300 * X, *VECTORS))
    results = []
    for is_compact in (False, True):
        with use_compact_gradients() if is_compact else nullcontext(), tf.GradientTape() as tape:
            tape.watch(x)
            value = layer_normalization(x, gamma, beta, 1e-6)
        gradient = tape.gradient(value, x)
        assert value.dtype == gradient.dtype == dtype
        results.append([np.asarray(ops.cast(tensor, "float32")) for tensor in (value, gradient)])
    np.testing.assert_array_equal(results[1][0], results[0][0])
    np.testing.assert_allclose(results[1][1], results[0][1], rtol=1e-2, atol=1e-4)
