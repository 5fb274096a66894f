from __future__ import annotations

from math import erf

import numpy as np
from keras import ops

from attention_zoo.layers import FeedForward
from tests.layers.conformance import LayerConformance
from tests.layers.running import array, close, needs_dynamic_shapes, with_dynamic_shapes
from tests.layers.transformer.transformer_oracle import double


class TestFeedForward(LayerConformance):
    covers = FeedForward
    options = {"units": 7}
    changed = {"units": 5, "activation": "swiglu", "use_bias": False, "dropout": 0.3, "seed": 4}

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        return (np.random.default_rng(0).normal(size=(batch, 2, 6)).astype("float32"),)


def test_gate_and_activation() -> None:
    """SwiGLU, Shazeer 2020, equation 6."""
    layer = FeedForward(5, "swiglu", use_bias=False)
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("float32")
    got = array(layer(x))
    first, gate, second = (double(part.kernel) for part in (layer.first, layer.gate, layer.second))
    linear = x @ first
    close(got, (linear / (1 + np.exp(-linear)) * (x @ gate)) @ second, 1e-6)


def test_build_creates_all_weights() -> None:
    layer = FeedForward(4, "swiglu")
    layer.build((None, 3))
    assert [tuple(v.shape) for v in layer.weights] == [(3, 4), (4,), (3, 4), (4,), (4, 3), (3,)]


def test_dropout_acts_in_training_only() -> None:
    layer, x = FeedForward(50, dropout=0.5, seed=1), np.ones((2, 3, 4), "float32")
    assert np.ptp(array(layer(x)), axis=0).max() == 0
    assert np.ptp(array(layer(x, training=True)), axis=0).max() > 0


def test_activation_function_is_applied_to_all_axes() -> None:
    layer = FeedForward(2, lambda x: x - ops.mean(x, axis=1, keepdims=True))
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("float32")
    outputs = array(layer(x))
    inner = double(x) @ double(layer.first.kernel)
    expected = (inner - inner.mean(1, keepdims=True)) @ double(layer.second.kernel)
    close(outputs, expected, 1e-6)


@needs_dynamic_shapes
def test_width_of_the_inputs_may_be_dynamic() -> None:
    layer, x = FeedForward(5), np.ones((2, 3, 4), "float32")
    expected = array(layer(x))
    close(with_dynamic_shapes(layer, (None, None, None))(x), expected, 1e-6)


def test_gelu_is_exact_unless_gelu_tanh_is_selected() -> None:
    """Hendrycks and Gimpel 2016, section 2; they differ in the fourth digit."""
    x = np.linspace(-3, 3, 13)
    exact = np.array([0.5 * value * (1 + erf(value / 2**0.5)) for value in x])
    approximation = 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    for name, expected in (("gelu", exact), ("gelu_tanh", approximation)):
        layer = FeedForward(1, name)
        layer.build((None, 1))
        layer.first.kernel.assign([[1.0]])
        layer.second.kernel.assign([[1.0]])
        got = array(layer(x[:, None].astype("float32")))[:, 0]
        close(got, expected, 1e-6)
        repeated = FeedForward.from_config(layer.get_config())
        assert repeated.get_config()["activation"] == name
    assert np.abs(exact - approximation).max() > 1e-4
