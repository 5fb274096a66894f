"""Recorded attention weights: of every attention layer, in all kinds of models and calls."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import attention_zoo as az
from attention_zoo.inspection import attention_model, record
from attention_zoo.inspection.attention_layers import find_attention_layers
from tests.layers.running import JAX

LAYERS = az.layers
INPUTS, QUERY_AND_VALUE, PAIR = ((2, 5, 8),), ((2, 3, 8), (2, 5, 8)), ((2, 3, 8), (2, 5, 8))

# Class: constructor, shapes of the inputs, path of the recorded layer, index of the weights.
CASES: dict[str, tuple[Any, tuple[tuple[int, ...], ...], str, int]] = {
    **{
        name: (getattr(LAYERS, name), QUERY_AND_VALUE, "", 1)
        for name in (
            "Attention",
            "CoverageAttention",
            "DotProductAttention",
            "HardAttention",
            "LocationSensitiveAttention",
            "MixtureWindowAttention",
            "MonotonicAttention",
            "MonotonicChunkwiseAttention",
            "MultiplicativeAttention",
            "VisualAttention",
        )
    },
    "AdditiveAttention": (lambda: LAYERS.AdditiveAttention(4), QUERY_AND_VALUE, "", 1),
    "LocalAttention": (lambda: LAYERS.LocalAttention(window=1), QUERY_AND_VALUE, "", 1),
    "MultiHeadAttention": (lambda: LAYERS.MultiHeadAttention(2, 4), QUERY_AND_VALUE, "", 1),
    "SelfAttention": (lambda: LAYERS.SelfAttention(2, 4), INPUTS, "*", 1),
    "WindowedAttention": (lambda: LAYERS.WindowedAttention(2, 4, window=1), INPUTS, "*", 1),
    "AttentionPooling": (LAYERS.AttentionPooling, INPUTS, "attention", 1),
    "StructuredSelfAttention": (
        lambda: LAYERS.StructuredSelfAttention(4, 3),
        INPUTS,
        "attention",
        1,
    ),
    "HierarchicalAttention": (
        lambda: LAYERS.HierarchicalAttention([(None, LAYERS.AttentionPooling())]),
        INPUTS,
        "*",
        1,
    ),
    "CoAttention": (LAYERS.CoAttention, PAIR, "", 1),
    "StackedCrossAttention": (LAYERS.StackedCrossAttention, PAIR, "", 2),
    "AttentionFeatureMap": (lambda: LAYERS.AttentionFeatureMap(5), PAIR, "", 2),
    "AttentionWeightedPooling": (lambda: LAYERS.AttentionWeightedPooling(2), PAIR, "", 2),
    "TransformerEncoderLayer": (lambda: LAYERS.TransformerEncoderLayer(16, 2), INPUTS, "*", 1),
    "TransformerDecoderLayer": (lambda: LAYERS.TransformerDecoderLayer(16, 2), PAIR, "*", 1),
}


@pytest.fixture(autouse=True)
def eager_in_fast_tier() -> None:
    """Compile in the fast tier too, unlike other tests of this folder."""


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def test_every_layer_that_returns_weights_has_a_case() -> None:
    classes = {
        name
        for name, cls in inspect.getmembers(LAYERS, inspect.isclass)
        if "return_attention_scores" in inspect.signature(getattr(cls, "call", cls)).parameters
    }
    assert classes == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_recorded_weights_equal_returned_weights(name: str) -> None:
    """The outputs of the recorded call are equal to the bit, and the layer has no new attribute."""
    make, shapes, path, index = CASES[name]
    layer = make()
    inputs = [numbers(*shape, seed=n) for n, shape in enumerate(shapes)]
    expected = layer(*inputs)
    (returned,) = keras.tree.flatten(layer(*inputs, return_attention_scores=True)[index])
    returned = ops.convert_to_numpy(returned)
    attributes = set(vars(layer))
    with record(layer) as weights:
        outputs = layer(*inputs)
    assert set(vars(layer)) == attributes
    keras.tree.map_structure(np.testing.assert_array_equal, outputs, expected)
    recorded = next(iter(weights.values())) if path == "*" else weights[path or layer.name]
    assert [entry.call for entry in recorded] == [0]
    assert recorded[0].weights.ndim == 4
    returned = returned.reshape(recorded[0].weights.shape)  # without the axes of size 1
    np.testing.assert_allclose(recorded[0].weights, returned, atol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize(
    "make",
    [
        lambda **options: keras.layers.MultiHeadAttention(2, 4, **options),
        lambda **options: keras.layers.GroupQueryAttention(4, 4, 2, **options),
    ],
    ids=["multi_head", "grouped_query"],
)
def test_multi_head_layers_of_keras(make: Any, dropout: float, masked: bool) -> None:
    """Weights of fused and of explicit attention equal those that the layer returns."""
    layer, x = make(dropout=dropout), numbers(2, 5, 8)
    mask = {"attention_mask": np.tril(np.ones((2, 5, 5), "bool"), 1)} if masked else {}
    expected = layer(x, x, **mask)
    _, returned = layer(x, x, return_attention_scores=True, **mask)
    with record(layer) as weights:
        output = layer(x, x, **mask)
        causal = layer(x, x, use_causal_mask=True)
    np.testing.assert_array_equal(output, expected)
    np.testing.assert_array_equal(causal, layer(x, x, use_causal_mask=True))
    first, second = weights[layer.name]
    np.testing.assert_allclose(first.weights, returned, atol=1e-6)
    assert (first.mask is None) != masked
    assert not np.triu(second.weights, 1).any()
    np.testing.assert_allclose(second.weights.sum(-1), 1, atol=1e-6)
    assert second.mask is not None
    np.testing.assert_array_equal(second.mask[0, 0], np.tril(np.ones((5, 5), "bool")))


@pytest.mark.parametrize("cls", [keras.layers.Attention, keras.layers.AdditiveAttention])
def test_single_head_layers_of_keras(cls: type) -> None:
    layer, query, value = cls(), numbers(2, 3, 8), numbers(2, 5, 8)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], "bool")
    output, returned = layer([query, value], [None, mask], return_attention_scores=True)
    with record(layer) as weights:
        np.testing.assert_array_equal(layer([query, value], [None, mask]), output)
    (entry,) = weights[layer.name]
    np.testing.assert_array_equal(entry.weights[:, 0], returned)
    assert not entry.weights[1, :, :, 2:].any()


def make_translator() -> Any:
    return az.models.RNNSearch(20, 20, embedding_dim=4, units=4, attention_units=4, readout_units=4)


class Block(keras.layers.Layer):
    """A layer of a user, with attention layers in a list and in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = [keras.layers.MultiHeadAttention(2, 4) for _ in range(2)]
        self.others = {"pooling": LAYERS.AttentionPooling()}

    def call(self, x: Any) -> Any:
        for layer in self.heads:
            x = x + layer(x, x)
        return self.others["pooling"](x)


class Subclassed(keras.Model):
    """A model that calls a block twice, inside a nested model."""

    def __init__(self) -> None:
        super().__init__()
        x = keras.Input((None, 8))
        self.inner = keras.Model(x, LAYERS.MultiHeadAttention(2, 4, name="cross")(x, x))
        self.block = Block()
        self.drop = keras.layers.Dropout(0.5)

    def call(self, x: Any, training: bool = False) -> Any:
        x = self.drop(self.inner(x), training=training)
        return self.block(x) + self.block(2 * x)


PATHS = ["inner/cross", "block/heads/0", "block/heads/1", "block/others/pooling/attention"]


def test_layers_of_nested_models_have_paths() -> None:
    """A shared block that is called twice has two records for each layer, in order."""
    model, x = Subclassed(), numbers(2, 5, 8)
    expected = model(x)
    assert list(find_attention_layers(model)) == PATHS
    with record(model) as weights:
        np.testing.assert_array_equal(model(x), expected)
    assert [(path, [entry.call for entry in weights[path]]) for path in weights] == [
        ("inner/cross", [0]),
        *((path, [0, 1]) for path in PATHS[1:]),
    ]
    first, second = weights["block/heads/0"]
    assert np.abs(first.weights - second.weights).max() > 1e-4
    with record(model, layers=["block/heads/*", model.inner.get_layer("cross")]) as weights:
        model(x)
    assert set(weights) == set(PATHS[:3])


def test_predict_is_retraced_and_restored() -> None:
    x = keras.Input((5, 8))
    heads = keras.layers.MultiHeadAttention(2, 4, name="heads")
    model, inputs = keras.Model(x, heads(x, x)), numbers(3, 5, 8)
    model.compile(jit_compile=False)
    expected = model.predict(inputs, verbose=0, batch_size=2)
    function = model.predict_function
    with record(model) as weights:
        predicted = model.predict(inputs, verbose=0, batch_size=2)
    np.testing.assert_array_equal(predicted, expected)
    assert [entry.weights.shape[0] for entry in weights["heads"]] == [2, 1]
    assert model.predict_function is function
    assert model.jit_compile is False
    count = weights.num_bytes
    model.predict(inputs, verbose=0)
    assert weights.num_bytes == count, "nothing is recorded after the context"


@pytest.mark.full
def test_fit_is_recorded() -> None:
    """Gradients and weights are those without recording, with dropout too."""
    x = keras.Input((5, 8))
    heads = keras.layers.MultiHeadAttention(2, 4, dropout=0.5, seed=1, name="heads")
    model, inputs = keras.Model(x, heads(x, x)), numbers(4, 5, 8)
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    for trained in (model, copy):
        trained.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    copy.fit(inputs, inputs, verbose=0, batch_size=2, shuffle=False)
    with record(model) as weights:
        model.fit(inputs, inputs, verbose=0, batch_size=2, shuffle=False)
    assert len(weights["heads"]) == 2
    for a, b in zip(model.get_weights(), copy.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert model.train_function is None


def test_hooks_are_removed_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Block(), numbers(2, 5, 8)
    model(x)
    layers = list(find_attention_layers(model).values())
    attributes = [set(vars(layer)) for layer in layers]

    def stop(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("stop")

    monkeypatch.setattr(model.others["pooling"], "call", stop)
    with pytest.raises(RuntimeError, match="stop"), record(model):
        model(x)
    assert [set(vars(layer)) for layer in layers] == attributes
    with pytest.raises(ValueError, match="no attention layer of"), record(model):
        pass


def test_contexts_can_be_nested() -> None:
    layer, x = keras.layers.MultiHeadAttention(2, 4), numbers(2, 5, 8)
    with record(layer) as outer:
        layer(x, x)
        with record(layer, dtype="float16", heads=[1]) as inner:
            layer(x, x)
        layer(x, x)
    assert [entry.call for entry in outer[layer.name]] == [0, 1, 2]
    (entry,) = inner[layer.name]
    assert entry.weights.dtype == "float16"
    np.testing.assert_allclose(entry.weights, outer[layer.name][1].weights[:, 1:], atol=1e-3)


def test_masks_of_padding_are_recorded() -> None:
    """The mask combines the padding of queries and values with the causal mask."""
    layer, x = LAYERS.MultiHeadAttention(2, 4), numbers(2, 4, 8)
    padding = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], "bool")
    with record(layer) as weights:
        layer(x, x, query_mask=padding, value_mask=padding, use_causal_mask=True)
    mask = weights[layer.name][0].mask
    assert mask is not None
    expected = padding[:, :, None] & padding[:, None] & np.tril(np.ones((4, 4), "bool"))
    np.testing.assert_array_equal(np.broadcast_to(mask[:, 0], (2, 4, 4)), expected)


def test_weights_of_blockwise_attention_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output is that of the blockwise path."""
    layer, x = LAYERS.MultiHeadAttention(2, 4), numbers(1, 40, 8)
    _, returned = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    steps = az.layers.attention.steps
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 100)
    expected = layer(x, x, use_causal_mask=True)
    with record(layer) as weights:
        np.testing.assert_array_equal(layer(x, x, use_causal_mask=True), expected)
    np.testing.assert_allclose(weights[layer.name][0].weights, returned, atol=1e-6)


def test_attention_model_returns_weights() -> None:
    """Shared layers have one output for each call; the model compiles and is saved."""
    x = keras.Input((None, 8))
    shared = keras.layers.MultiHeadAttention(2, 4, name="shared")
    model = keras.Model(x, LAYERS.MultiHeadAttention(2, 4, name="last")(shared(x, x), x))
    layer = keras.layers.MultiHeadAttention(2, 4, name="twice")
    twice = keras.Model(x, layer(layer(x, x), x))
    inputs = numbers(2, 5, 8)
    with record(twice) as weights:
        twice(inputs)
    outputs = attention_model(twice).predict(inputs, verbose=0)
    assert list(outputs) == ["twice", "twice:1"]
    for entry, output in zip(weights["twice"], outputs.values(), strict=True):
        np.testing.assert_allclose(output, entry.weights, atol=1e-6)
    assert list(attention_model(model, layers=["last"])(inputs)) == ["last"]


@pytest.mark.skipif(JAX, reason="JAX always compiles with XLA")
def test_attention_model_runs_under_xla() -> None:
    x = keras.Input((5, 8))
    model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="heads")(x, x))
    inputs = numbers(2, 5, 8)
    created = attention_model(model)
    created.compile(jit_compile=True)
    assert created.jit_compile
    predicted = created.predict(inputs, verbose=0)["heads"]
    np.testing.assert_allclose(predicted, created(inputs)["heads"], atol=1e-6)


def test_attention_model_is_saved(tmp_path: Any) -> None:
    x = keras.Input((None, 8))
    model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="heads")(x, x))
    inputs = numbers(2, 5, 8)
    created = attention_model(model)
    expected = created(inputs)["heads"]
    created.save(tmp_path / "weights.keras")
    loaded = keras.saving.load_model(tmp_path / "weights.keras")
    np.testing.assert_array_equal(loaded(inputs)["heads"], expected)


def test_attention_model_rejects_layers_in_loops() -> None:
    model = make_translator()
    tokens = np.array([[5, 6, 7]], "int32")
    created = attention_model(model)
    with pytest.raises(ValueError, match="runs in a loop over time"):
        created.predict({"source": tokens, "target": tokens}, verbose=0)


@pytest.mark.skipif(JAX, reason="TensorFlow's functions")
def test_tf_functions_traced_inside_are_recorded() -> None:
    """A traced function does not record; one that XLA compiles cannot."""
    import tensorflow as tf

    model, x = keras.layers.MultiHeadAttention(2, 4), tf.constant(numbers(2, 5, 8))
    before = tf.function(lambda x: model(x, x))
    before(x)
    with pytest.raises(ValueError, match="traced before does not record"), record(model):
        before(x)
    with record(model) as weights:
        inside = tf.function(lambda x: model(x, x))
        inside(x)
        inside(x)
    assert [entry.call for entry in weights[model.name]] == [0, 1]
    inside(x)
    assert len(weights[model.name]) == 2
    compiled = tf.function(lambda x: model(x, x), jit_compile=True)
    with pytest.raises(ValueError, match="jit_compile=False"), record(model):
        compiled(x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": ["missing"]}, "no attention layer matches 'missing'; known: heads"),
        ({"layers": "heads"}, "layers must be a list"),
        ({"heads": [2]}, r"heads must be in 0\.\.1 for layer heads, got 2"),
        ({"dtype": "int8"}, "dtype must be one of float16, float32, float64, got 'int8'"),
        ({"max_bytes": 10}, "recorded weights exceed max_bytes=10 at layer heads, got .* bytes"),
        ({"max_bytes": 0}, "max_bytes"),
    ],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "predict"])
def test_invalid_options(options: dict[str, Any], message: str, compiled: bool) -> None:
    x = keras.Input((None, 8))
    model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="heads")(x, x))
    inputs = numbers(2, 5, 8)
    run = model.predict_on_batch if compiled else model
    with pytest.raises(ValueError, match=message), record(model, **options):
        run(inputs)


def test_models_without_attention_are_rejected() -> None:
    model = keras.Sequential([keras.layers.Dense(2)], name="dense_only")
    with pytest.raises(ValueError, match="dense_only has no attention layer"), record(model):
        pass
    with pytest.raises(ValueError, match="model must be a Keras model or layer, got dict"):
        find_attention_layers({})  # type: ignore[arg-type]


def test_layers_that_did_not_run_have_no_records() -> None:
    model, x = Subclassed(), numbers(2, 5, 8)
    with record(model) as weights:
        model.inner(x)
    assert list(weights) == ["inner/cross"]
    with pytest.raises(KeyError, match="block/heads/0 did not run"):
        weights["block/heads/0"]
    with pytest.raises(KeyError, match="no recorded layer 'other'; known: inner/cross"):
        weights["other"]
    with pytest.raises(ValueError, match="no attention layer of"), record(model):
        model.inner(keras.Input((5, 8)))


def test_dropout_of_keras_attention_is_not_recorded() -> None:
    layer = keras.layers.Attention(dropout=0.5, seed=1)
    query, value = numbers(2, 3, 8), numbers(2, 5, 8)
    expected = layer([query, value])
    with record(layer) as weights:
        layer([query, value], training=True)
        np.testing.assert_array_equal(layer([query, value]), expected)
    for entry in weights[layer.name]:
        np.testing.assert_allclose(entry.weights.sum(-1), 1, atol=1e-6)


def test_models_that_are_compiled_inside_keep_their_functions() -> None:
    x = keras.Input((5, 8))
    model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="heads")(x, x))
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.train_function = before = object()
    with record(model):
        model(numbers(1, 5, 8))
    assert model.train_function is before
    with record(model):
        model.compile(keras.optimizers.SGD(1.0), "mse", jit_compile=False)
        model(numbers(1, 5, 8))
    assert model.train_function is None
    assert model.jit_compile is False


def test_methods_with_the_name_of_a_compiled_function_are_unchanged() -> None:
    """`generate_function` is an attribute of the models of KerasHub only."""

    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.heads = keras.layers.MultiHeadAttention(2, 4)

        def call(self, x: Any) -> Any:
            return self.heads(x, x)

        def generate_function(self, x: Any) -> Any:
            return self(x)

    model = Model()
    model(numbers(1, 5, 8))
    with record(model) as weights:
        model.generate_function(numbers(1, 5, 8))
    assert [len(records) for records in weights.values()] == [1]
    assert "generate_function" not in vars(model)


def test_weights_of_several_attention_axes_are_rejected() -> None:
    layer, x = keras.layers.MultiHeadAttention(2, 4, attention_axes=(2,)), numbers(2, 3, 5, 8)
    message = "weights of 5 axes, which cannot be recorded"
    with pytest.raises(ValueError, match=message), record(layer):
        layer(x, x)


def test_paths_with_brackets_can_be_selected() -> None:
    x = keras.Input((5, 8))
    model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="att[0]")(x, x))
    assert list(find_attention_layers(model, ["att[0]"])) == ["att[0]"]


def test_layers_beside_a_functional_model_are_found() -> None:
    class WithLayer(keras.Model):
        def __init__(self) -> None:
            x = keras.Input((5, 8))
            super().__init__(x, keras.layers.MultiHeadAttention(2, 4, name="inside")(x, x))
            self.more = keras.layers.MultiHeadAttention(2, 4, name="beside")

        def call(self, x: Any) -> Any:
            x = super().call(x)
            return self.more(x, x)

    model = WithLayer()
    with record(model) as weights:
        model(numbers(1, 5, 8))
    assert list(weights) == ["inside", "beside"]


@pytest.mark.parametrize("heads", [[], [True], [1.5], ["1"]])
def test_invalid_heads(heads: Any) -> None:
    layer = keras.layers.MultiHeadAttention(2, 4)
    with pytest.raises(ValueError, match="heads must"), record(layer, heads=heads):
        pass
