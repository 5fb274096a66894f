"""Importance of heads: worked values, differences as an oracle, layers of Keras and of the zoo."""

from __future__ import annotations

import doctest
import sys
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo import layers as zoo_layers
from attention_zoo.inspection import attention_layers
from attention_zoo.inspection.attention_layers import attention_hooks
from attention_zoo.inspection.head_importance import head_importance
from attention_zoo.layers.attention.weights_hooks import has_weights_hooks

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(6, 3, 8)).astype("float32")
TARGETS = RNG.normal(size=(6, 1)).astype("float32")
TOLERANCE = {"rtol": 2e-3, "atol": 1e-5}

ATTENTION: dict[str, Any] = {
    "keras": lambda: keras.layers.MultiHeadAttention(2, 4, name="attention"),
    "keras_gqa": lambda: keras.layers.GroupQueryAttention(4, 2, 1, name="attention"),
    "zoo": lambda: zoo_layers.MultiHeadAttention(2, 4, name="attention"),
    "zoo_gqa": lambda: zoo_layers.MultiHeadAttention(2, 4, num_key_value_heads=1, name="attention"),
}


def make_model(attention: Any) -> keras.Model:
    x = keras.Input((3, 8))
    y = attention(x, x)
    return keras.Model(x, keras.layers.Dense(1)(ops.tanh(y[:, 0])))


def compute_losses(model: Any, attention: Any, head: int, factor: float) -> np.ndarray:
    """Squared errors `(B,)` with the context of one head multiplied by a factor."""
    is_keras = isinstance(attention, attention_layers.MULTI_HEAD)

    def scale(layer: Any, weights: Any, mask: Any, output: Any) -> Any:
        factors = np.ones(output.shape[-2 if is_keras else 1], "float32")
        factors[head] = factor
        return output * (factors[:, None] if is_keras else factors[:, None, None])

    with attention_hooks([attention], scale):
        outputs = ops.convert_to_numpy(model(INPUTS)).astype("float64")
    return ((outputs - TARGETS) ** 2)[:, 0]


@pytest.mark.parametrize("name", ATTENTION)
def test_gradients_equal_differences(name: str) -> None:
    attention = ATTENTION[name]()
    model = make_model(attention)
    result = head_importance(model, INPUTS, TARGETS, "mse", batch_size=3)
    assert list(result) == ["attention"]
    for head, value in enumerate(result["attention"]):
        above, below = (compute_losses(model, attention, head, 1 + d) for d in (0.01, -0.01))
        assert value == pytest.approx(np.abs(above - below).mean() / 0.02, rel=5e-3, abs=1e-4)
    assert not has_weights_hooks(model)


@pytest.mark.parametrize("name", ATTENTION)
def test_masking_equals_differences(name: str) -> None:
    attention = ATTENTION[name]()
    model = make_model(attention)
    result = head_importance(model, INPUTS, TARGETS, "mse", method="mask", batch_size=4)
    losses = compute_losses(model, attention, 0, 1)
    for head, value in enumerate(result["attention"]):
        expected = (compute_losses(model, attention, head, 0) - losses).mean()
        assert value == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert not has_weights_hooks(model)


def test_importance_worked_by_hand() -> None:
    """Heads average values 1 and 2 of equal tokens: the output is xi_1 + 2 xi_2 = 3.

    Targets are 0 and 6. Loss (y - target)^2: dL/dxi_1 = 2 (3 - target) = 6 and -6, so I_1 = 6 and
    I_2 = 12. Without head 1, y = 2: losses 4 and 16 instead of 9 and 9. Without head 2, y = 1: 1
    and 25.
    """
    layer = keras.layers.MultiHeadAttention(2, 1, use_bias=False, name="attention")
    x = keras.Input((2, 1))
    model = keras.Model(x, layer(x, x)[:, 0])
    zeros, values = np.zeros((1, 2, 1)), np.array([[[1.0], [2.0]]])
    layer.set_weights([zeros, zeros, values, np.ones((2, 1, 1))])
    inputs, targets = np.ones((2, 2, 1), "float32"), np.array([[0.0], [6.0]], "float32")
    result = head_importance(model, inputs, targets, "mse")["attention"]
    np.testing.assert_allclose(result, [6, 12], **TOLERANCE)
    result = head_importance(model, inputs, targets, "mse", method="mask")["attention"]
    np.testing.assert_allclose(result, [1, 4], **TOLERANCE)


def test_heads_that_the_output_ignores_have_importance_0() -> None:
    attention = keras.layers.MultiHeadAttention(3, 4, name="attention")
    model = make_model(attention)
    kernel = attention.output_dense.kernel  # (H, V, D)
    kernel.assign(ops.convert_to_numpy(kernel) * np.array([1, 0, 1])[:, None, None])
    for method in ("gradient", "mask"):
        result = head_importance(model, INPUTS, TARGETS, "mse", method=method)["attention"]
        assert result[1] == pytest.approx(0, abs=1e-6)
        assert (np.abs(result[[0, 2]]) > 1e-5).all()


@pytest.mark.parametrize(
    "loss",
    [
        "mse",
        keras.losses.MeanSquaredError(),
        lambda targets, outputs: (targets - outputs) ** 2,
        lambda targets, outputs: ops.mean((targets - outputs) ** 2, axis=1),
    ],
    ids=["name", "keras", "function", "per_example"],
)
def test_losses(loss: Any) -> None:
    model = make_model(zoo_layers.Attention(name="attention"))
    expected = head_importance(model, INPUTS, TARGETS, "mse", batch_size=1)["attention"]
    assert expected.shape == (1,)
    result = head_importance(model, INPUTS, TARGETS, loss)["attention"]
    np.testing.assert_allclose(result, expected, **TOLERANCE)


class Shared(keras.layers.Layer):
    """Encoder of named inputs with a layer called twice, a second layer and an unused one."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = keras.layers.MultiHeadAttention(2, 4)
        self.last = zoo_layers.MultiHeadAttention(3, 4)
        self.unused = keras.layers.MultiHeadAttention(2, 4)

    def build(self, shapes: Any) -> None:
        for layer in (self.shared, self.last, self.unused):
            layer.build(shapes["x"], shapes["x"])

    def call(self, inputs: Any) -> Any:
        x = self.shared(inputs["x"], inputs["x"])
        x = self.shared(x, x)
        return self.last(x, x)[:, 0, :1]


def test_layers_called_twice_and_selected_layers() -> None:
    model = Shared()
    model({"x": INPUTS})
    inputs = {"x": INPUTS}
    result = head_importance(model, inputs, TARGETS, "mse", method="mask")
    assert {path: value.shape for path, value in result.items()} == {"shared": (2,), "last": (3,)}
    selected = head_importance(model, inputs, TARGETS, "mse", ["shared"], method="mask")
    np.testing.assert_allclose(selected["shared"], result["shared"], **TOLERANCE)

    def without_first(layer: Any, weights: Any, mask: Any, output: Any) -> Any:
        return output * np.array([0, 1], "float32")[:, None]

    def compute_loss() -> float:
        return float(np.mean((ops.convert_to_numpy(model(inputs)) - TARGETS) ** 2))

    with attention_hooks([model.shared], without_first):
        masked = compute_loss()
    expected = masked - compute_loss()
    assert selected["shared"][0] == pytest.approx(expected, rel=1e-3, abs=1e-5)
    with pytest.raises(ValueError, match="attention layer unused did not run"):
        head_importance(model, inputs, TARGETS, "mse", ["unused"])


class Flattened(keras.layers.Layer):
    """Attention over the sentences of documents `(B, 2, 3, 8)`, with a batch of 2 B."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = keras.layers.MultiHeadAttention(2, 4)

    def build(self, shape: Any) -> None:
        self.attention.build((None, 3, 8), (None, 3, 8))

    def call(self, x: Any) -> Any:
        flat = ops.reshape(x, (-1, 3, 8))
        return ops.mean(ops.reshape(self.attention(flat, flat), (-1, 48)), axis=1, keepdims=True)


def test_a_layer_with_another_batch_needs_batch_size_1() -> None:
    model, inputs = Flattened(), RNG.normal(size=(6, 2, 3, 8)).astype("float32")
    model(inputs)
    with pytest.raises(ValueError, match=r"got 12 rows for 6 examples. Use batch_size=1"):
        head_importance(model, inputs, TARGETS, "mse")
    result = head_importance(model, inputs, TARGETS, "mse", batch_size=1)
    assert result["attention"].shape == (2,)
    assert head_importance(model, inputs, TARGETS, "mse", method="mask").keys() == result.keys()


def test_a_compiled_function_inside_is_rejected() -> None:
    """It runs the hook once, when it is traced."""
    attention = keras.layers.MultiHeadAttention(2, 4)
    model = make_model(attention)
    outputs: list[Any] = []

    class Cached(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.built = model, True

        def call(self, x: Any) -> Any:
            if not outputs:
                outputs.append(self.model(x))
            return outputs[0]

    with pytest.raises(ValueError, match=r"must run in every call, got none of .* in a later call"):
        head_importance(Cached(), INPUTS, TARGETS, "mse")
    assert not has_weights_hooks(model)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "method": ({"method": "masking"}, "method must be one of gradient, mask, got 'masking'"),
    "batch_size": ({"batch_size": 0}, "batch_size must be at least 1"),
    "layers": ({"layers": ["decoder/*"]}, "no attention layer matches 'decoder/"),
    "targets": ({"targets": TARGETS[:4]}, r"same number of examples, at least 1, got \[4, 6\]"),
    "empty": ({"inputs": INPUTS[:0], "targets": TARGETS[:0]}, "at least 1, got"),
    "scalar": ({"loss": lambda y, z: ops.mean((y - z) ** 2)}, r"loss must return \(6, ...\)"),
    "loss": ({"loss": 3}, "loss must be a name, a Keras loss or a function.*got 3"),
    "name": ({"loss": "no_such_loss"}, "no_such_loss"),
    "model": ({"model": keras.layers.Dense(2, name="plain")}, "plain has no attention layer"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name: str) -> None:
    changed, message = BAD[name]
    arguments: dict[str, Any] = {"inputs": INPUTS, "targets": TARGETS, "loss": "mse", **changed}
    if "model" not in arguments:
        arguments["model"] = make_model(ATTENTION["keras"]())
    with pytest.raises(ValueError, match=message):
        head_importance(**arguments)


def test_examples_of_the_docstrings() -> None:
    results = doctest.testmod(sys.modules[head_importance.__module__])
    assert results.attempted
    assert not results.failed


def test_targets_may_be_a_list() -> None:
    x = keras.Input((3, 8))
    y = keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x)
    model = keras.Model(x, keras.layers.Dense(3)(y[:, 0]))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    inputs, targets = np.ones((2, 3, 8), "float32"), [0, 2]
    expected = head_importance(model, inputs, np.array(targets), loss)
    np.testing.assert_array_equal(
        head_importance(model, inputs, targets, loss)["attention"], expected["attention"]
    )
