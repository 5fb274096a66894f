"""Layer normalization with a custom gradient."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers.transformer.layer_normalization import LayerNormalization
from attention_zoo.ops import use_compact_gradients
from tests.layers.running import array

X = np.random.default_rng(3).normal(size=(2, 3, 4)).astype("float32")


def build_random(**options: Any) -> tuple[LayerNormalization, keras.layers.LayerNormalization]:
    """Return our layer and Keras's, with the same random weights."""
    ours, theirs = LayerNormalization(**options), keras.layers.LayerNormalization(**options)
    for layer in (ours, theirs):
        layer.build(X.shape)
    weights = [np.random.default_rng(n).normal(size=w.shape) for n, w in enumerate(ours.weights)]
    for layer in (ours, theirs):
        layer.set_weights(weights)
    return ours, theirs


@pytest.mark.parametrize("is_compact", [False, True], ids=["plain", "compact"])
@pytest.mark.parametrize("options", [{}, {"axis": 1}, {"center": False}, {"scale": False}])
def test_equals_that_of_keras(options: dict[str, Any], is_compact: bool) -> None:
    ours, theirs = build_random(**options)
    with use_compact_gradients() if is_compact else nullcontext():
        got = array(ours(X))
    np.testing.assert_allclose(got, array(theirs(X)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float64"])
def test_result_has_the_compute_dtype(policy: str) -> None:
    layer = LayerNormalization(dtype=policy)
    with use_compact_gradients():
        dtype = keras.backend.standardize_dtype(layer(ops.convert_to_tensor(X)).dtype)
    assert dtype == layer.compute_dtype


def test_layer_in_a_functional_model_is_saved(tmp_path: Path) -> None:
    inputs = keras.Input((3, 4))
    model = keras.Model(inputs, LayerNormalization()(inputs))
    model.save(tmp_path / "model.keras")
    repeated = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(repeated(X)), array(model(X)))


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a tape")
def test_gradients_of_the_variables_equal_those_of_keras() -> None:
    import tensorflow as tf

    gradients = []
    for layer in build_random():
        with tf.GradientTape() as tape, use_compact_gradients():
            loss = tf.reduce_sum(tf.sin(layer(X)))
        gradients.append(tape.gradient(loss, [weight.value for weight in layer.weights]))
    for got, expected in zip(*gradients, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
