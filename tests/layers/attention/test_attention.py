from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo import layers
from attention_zoo.layers import (
    Alignment,
    Attention,
    DotScore,
    HardAlignment,
    MultiHeadAttention,
    Score,
    VisualAttention,
)
from attention_zoo.layers.scores.base import dot
from attention_zoo.ops import attach_mask, implicit_mask
from tests.layers.attention_case import Weights
from tests.layers.conformance import AttentionConformance
from tests.layers.running import MODES, array, close, compiled, normal, same


class TestAttention(AttentionConformance):
    covers = Attention
    options = {"score": "concat"}
    changed = {"score": "general", "alignment": "hard", "units": 9, "dropout": 0.3, "seed": 5}

    def scores(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        upper, lower = weights["kernel"][:6], weights["kernel"][6:]
        hidden = (query @ upper)[:, :, None] + (key @ lower)[:, None]
        return np.tanh(hidden) @ weights["v"]


@pytest.mark.parametrize("layer", [Attention, VisualAttention], ids=lambda layer: layer.__name__)
def test_takes_the_keywords_of_multi_head_attention(layer: type) -> None:
    """For each class that defines `call`; the others inherit it."""
    ours = list(inspect.signature(layer.call).parameters)
    theirs = list(inspect.signature(keras.layers.MultiHeadAttention.call).parameters)
    assert ours[:4] == theirs[:4] == ["self", "query", "value", "key"]
    assert set(theirs) <= set(ours)


@keras.saving.register_keras_serializable("attention_zoo_tests")
class WithoutReplacement(Alignment):
    """A stateful alignment that selects the best position not selected before."""

    def initial_state(self, like: object) -> tuple[object, ...]:
        return (ops.zeros_like(like),)

    def call(self, scores, mask=None, state=(), training=False):
        fresh = state[0] == 0 if mask is None else ops.logical_and(mask, state[0] == 0)
        weights, _ = HardAlignment().call(scores, mask=fresh)
        return weights, (state[0] + weights,)


@pytest.mark.parametrize("mode", MODES)
def test_stateful_alignment_attends_step_by_step(mode: str) -> None:
    layer = Attention(score="dot", alignment=WithoutReplacement())
    value = np.array([[[3.0], [1.0], [2.0]], [[1.0], [3.0], [2.0]]], "float32")
    query = np.ones((2, 4, 1), "float32")
    mask = np.array([[1, 1, 1], [1, 1, 0]], "bool")
    layer(query, value)
    context, weights = compiled(
        lambda q, v: layer(q, v, value_mask=mask, return_attention_scores=True), mode
    )(query, value)
    assert array(context)[..., 0].tolist() == [[3, 2, 1, 0], [3, 1, 0, 0]]
    assert array(weights)[1].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_score_and_alignment_may_be_objects() -> None:
    states = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    by_name = Attention(score="dot", alignment="hard")(states, states)
    by_object = Attention(score=DotScore(), alignment=HardAlignment())(states, states)
    close(by_name, by_object, 1e-9)


def test_alignment_is_built_on_the_shape_of_scores() -> None:
    shapes = []

    class Recorder(HardAlignment):
        def build(self, scores_shape: tuple[int, ...]) -> None:
            shapes.append(scores_shape)
            super().build(scores_shape)

    Attention(alignment=Recorder()).build((2, 3, 4), (2, 5, 4))
    assert shapes == [(2, 3, 5)]


def test_scores_far_beyond_float16() -> None:
    """Exact scores of 1e5 and more, the largest of them masked (K9 to K12)."""
    for sign in (1, -1):
        for dtype in ("float32", "float16", "bfloat16"):
            layer = Attention(score="dot", dtype=dtype)
            query = sign * np.full((1, 1, 1), 4.0, "float32")
            key = np.array([[[30000.0], [2500.0], [-2500.0], [0.0], [-30000.0]]], "float32")
            mask = np.array([[0, 1, 1, 1, 0]], "bool")
            value = np.eye(5, dtype="float32")[None]
            _, weights = layer(query, value, key, value_mask=mask, return_attention_scores=True)
            assert array(weights)[0, 0].tolist() == (
                [0, 1, 0, 0, 0] if sign > 0 else [0, 0, 1, 0, 0]
            )


class CountingScore(Score):
    """A stateful score, with the state as a required argument."""

    def initial_state(self, like: Any) -> Any:
        return (ops.zeros_like(like),)

    def update_state(self, weights: Any, state: Any) -> Any:
        return (state[0] + weights,)

    def compute_scores(self, query: Any, keys: Any, state: Any) -> Any:
        return dot(query, keys) - state[0]


def test_stateful_custom_score() -> None:
    query, value = normal((2, 3, 5), (2, 4, 5))
    _, weights = Attention(CountingScore())(query, value, return_attention_scores=True)
    scores = query @ value.transpose(0, 2, 1)
    expected = np.exp(scores[:, 1] - array(weights)[:, 0])
    close(weights[:, 1], ops.convert_to_tensor(expected / expected.sum(-1, keepdims=True)), 1e-5)


def test_value_of_batch_one_with_a_mask_of_the_key() -> None:
    query, value, key = normal((4, 3, 5), (1, 6, 5), (4, 6, 5))
    mask = np.random.default_rng(0).random((4, 6)) > 0.3
    layer = Attention()
    actual = layer(query, value, key, key_mask=mask)
    close(actual, layer(query, np.repeat(value, 4, axis=0), key, key_mask=mask), 1e-6)


def test_the_mask_of_a_repeated_query_is_repeated() -> None:
    query, value = map(ops.convert_to_tensor, normal((1, 4, 8), (1, 5, 8)))
    query = attach_mask(query, ops.ones((1, 4), "bool"))
    output = Attention()(query, value, attention_mask=np.ones((3, 4, 5), "bool"))
    assert implicit_mask(output).shape == (3, 4)


def test_prepared_values_of_one_row_take_masks_of_several() -> None:
    layer, (value,) = Attention(), normal((1, 5, 8))
    layer.build((3, 4, 8), (1, 5, 8))
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], "bool")
    close(layer.prepare(value, value_mask=mask).values, value * mask[..., None], 0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_fully_masked_rows_are_zero_beside_nan(is_causal: bool) -> None:
    """A query mask, or left padding with a causal mask, leaves rows without any source."""
    query, value = normal((2, 4, 8), (2, 4, 8))
    value[:, 3] = np.nan
    valid = np.array([[1, 1, 1, 1], [0, 1, 1, 1]], "bool")
    name = "value_mask" if is_causal else "query_mask"
    output = array(Attention()(query, value, use_causal_mask=is_causal, **{name: valid}))
    assert not output[1, 0].any()
    assert np.isnan(output[0]).all()


def test_rows_of_a_shared_memory_have_their_own_dropout_and_mask() -> None:
    query, value = np.ones((4, 3, 5), "float32"), np.ones((1, 64, 5), "float32")
    context = array(Attention("dot", dropout=0.5, seed=1)(query, value, training=True))
    assert len({row.tobytes() for row in context}) == 4
    shared = np.ones((1, 3, 5), "float32")
    mask = np.array([[True, True, False]])
    context = Attention("dot")(shared, np.ones((4, 6, 5), "float32"), query_mask=mask)
    assert implicit_mask(context).shape == (4, 3)


def make_layers() -> list[Any]:
    return [Attention("general"), MultiHeadAttention(2, 4), VisualAttention(4)]


@pytest.mark.parametrize("number", range(3))
def test_list_of_inputs_in_functional_models(number: int, tmp_path: Path) -> None:
    """Implicit masks are used, and the model can be saved and cloned."""
    tokens, memory = keras.Input((None,), dtype="int32"), keras.Input((None, 6))
    query = keras.layers.Embedding(9, 5, mask_zero=True)(tokens)
    layer = make_layers()[number]
    context, weights = layer([query, memory, memory], return_attention_scores=True)
    model = keras.Model([tokens, memory], [layer([query, memory]), context, weights])
    inputs = [np.array([[1, 2, 0], [3, 0, 0]]), normal((2, 4, 6))[0]]
    outputs = model(inputs)
    same(outputs[0], outputs[1])
    assert not array(outputs[0])[inputs[0] == 0].any()
    model.save(tmp_path / "model.keras")
    same(keras.models.load_model(tmp_path / "model.keras")(inputs), outputs)
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    same(copy(inputs), outputs)


NAMED = [value for value in vars(layers).values() if isinstance(value, type)]
NAMED = [cls for cls in NAMED if issubclass(cls, Attention) and cls is not Attention]


@pytest.mark.parametrize("cls", [Attention, *NAMED])
def test_list_of_shapes_in_build_and_in_output_specs(cls: type) -> None:
    """Lists work as in Keras's attention layers, and a layer is rebuilt from its config."""
    query, value = keras.KerasTensor((2, 3, 6)), keras.KerasTensor((2, 5, 6))
    layer = cls(2, 4) if issubclass(cls, MultiHeadAttention) else cls()
    expected = layer.compute_output_spec(query, value, return_attention_scores=True)
    for inputs in ([query, value], (query, value, value)):
        specs = layer.compute_output_spec(inputs, return_attention_scores=True)
        assert [x.shape for x in specs] == [x.shape for x in expected]
    layer.build([query.shape, value.shape])
    repeated = type(layer).from_config(layer.get_config())
    repeated.build_from_config(json.loads(json.dumps(layer.get_build_config())))
    other = type(layer).from_config(layer.get_config())
    other.build(query.shape, value.shape)
    shapes = [x.shape for x in other.weights]
    assert [x.shape for x in layer.weights] == [x.shape for x in repeated.weights] == shapes
    with pytest.raises(ValueError, match="the shape of value is missing"):
        type(layer).from_config(layer.get_config()).build(query.shape)


def test_positional_masks_in_output_specs() -> None:
    """The fifth argument is the value's mask, as in the call."""
    query, mask = keras.KerasTensor((2, 3, 6)), keras.KerasTensor((2, 3), "bool")
    spec = Attention("dot").compute_output_spec(query, query, None, mask, mask)
    assert spec.shape == (2, 3, 6)
    assert implicit_mask(spec) is mask
    spec = Attention("dot").compute_output_spec([query, query], [mask, mask])
    assert implicit_mask(spec) is mask


def test_positional_masks_after_a_list() -> None:
    query, value = normal((2, 3, 4), (2, 5, 4))
    masks = [np.array([[1, 1, 0], [1, 0, 0]], "bool"), np.arange(5) < np.array([[4], [2]])]
    theirs = keras.layers.Attention()([query, value], masks)
    same(Attention("dot")([query, value], masks), Attention("dot")([query, value], mask=masks))
    close(Attention("dot")([query, value], masks), theirs, 1e-6)


@pytest.mark.parametrize(
    ("match", "arguments", "options"),
    [
        (r"\[query, value\] or \[query, value, key\], got a list of 1", [["query"]], {}),
        ("pass them only once", [["query", "value"], None, "key"], {}),
        ("pass them only once", [["query", "value"]], {"key": "key"}),
        ("mask must be a list .* got ndarray; or", [["query", "value"]], {"mask": "mask"}),
        ("contains query_mask", [["query", "value"]], {"mask": ["m", "m"], "query_mask": "m"}),
    ],
)
def test_wrong_lists_are_rejected(match: str, arguments: list[Any], options: dict) -> None:
    x, mask = normal((2, 3, 4))[0], np.ones((2, 3), "bool")
    arguments, options = keras.tree.map_structure(
        lambda name: None if name is None else mask if name[0] == "m" else x, (arguments, options)
    )
    with pytest.raises(ValueError, match=match):
        Attention("dot")(*arguments, **options)
