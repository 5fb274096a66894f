from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import AttentionCell, RecurrentDecoder, VisualAttention
from attention_zoo.ops import attach_mask
from tests.layers.attention_case import Array, Result, Weights, additive_scores, numbers, softmax
from tests.layers.conformance import AttentionConformance, NumericConformance
from tests.layers.running import MODES, array, build_random, close, compiled, differentiable, same


class TestVisualAttention(AttentionConformance):
    covers = VisualAttention
    options = {"units": 8}
    changed = {"units": 9, "use_gate": False, "alignment": "hard", "dropout": 0.3, "seed": 5}

    def scores(self, weights: Weights, query: Array, key: Array) -> Array:
        return additive_scores(weights, query, key)

    def oracle(self, weights: Weights, tensors: tuple[Array, ...], mask: Array) -> Result:
        context, attention_weights = super().oracle(weights, tensors, mask)
        query = tensors[0].astype("float64")
        gate = 1 / (1 + np.exp(-(query @ weights["gate_kernel"] + weights["gate_bias"])))
        return gate * context, attention_weights


class TestVisualAttentionWithoutGate(NumericConformance):
    covers = VisualAttention
    options = {"units": 8, "use_gate": False}
    scores = TestVisualAttention.scores


def grid(height: int = 3, width: int = 5, seed: int = 0) -> tuple[Array, ...]:
    """Return states, features of an image, and masks."""
    rng = np.random.default_rng(seed)
    shapes = ((2, 4, 6), (2, height, width, 7))
    query, value = (rng.normal(size=shape).astype("float32") for shape in shapes)
    return query, value, rng.random((2, height, width)) < 0.6


def test_grid_equals_flattened_positions() -> None:
    """Flattened by rows; with every mask, and with keys."""
    layer, (query, value, mask) = VisualAttention(8), grid()
    key = np.random.default_rng(1).normal(size=(2, 3, 5, 4)).astype("float32")
    attention_mask = np.random.default_rng(2).random((2, 4, 3, 5)) < 0.7
    masks = {"value_mask": mask, "key_mask": np.roll(mask, 1, 2), "attention_mask": attention_mask}
    masks["attention_bias"] = np.random.default_rng(3).normal(size=(2, 4, 3, 5)).astype("float32")
    build_random(layer, query, value, key)
    context, weights = layer(query, value, key, return_attention_scores=True, **masks)
    assert tuple(weights.shape) == (2, 4, 3, 5)
    flat = {name: x.reshape(*x.shape[:-2], 15) for name, x in masks.items()}
    rows = value.reshape(2, 15, 7), key.reshape(2, 15, 4)
    expected, attention_weights = layer(query, *rows, return_attention_scores=True, **flat)
    same(context, expected)
    same(array(weights).reshape(2, 4, 15), attention_weights)
    allowed = (mask & masks["key_mask"])[:, None] & attention_mask
    assert not array(weights)[~allowed].any()


def test_grid_masks_broadcast_and_implicit_masks_apply() -> None:
    layer, (query, value, mask) = VisualAttention(8), grid()
    layer(query, value)
    column = mask[:1, :1]
    full = np.broadcast_to(column, (2, 3, 5))
    expected = layer(query, value, value_mask=full)
    same(layer(query, value, value_mask=np.repeat(column, 2, 0)), expected)
    same(layer(query, value, attention_mask=np.broadcast_to(column, (1, 4, 3, 5))), expected)
    carrying = attach_mask(ops.convert_to_tensor(value), ops.convert_to_tensor(mask))
    same(layer(query, carrying, value_mask=full), layer(query, value, value_mask=full & mask))


def test_by_hand() -> None:
    """Equal scores of four positions: their mean, 10, times the gate sigmoid(ln 3) = 3/4."""
    layer = VisualAttention(1)
    query, value = np.ones((1, 1, 1)), np.array([[[[4.0], [8.0]], [[12.0], [16.0]]]])
    layer(query, value)
    named = {v.name: v for v in layer.weights}
    named["v"].assign([0.0])
    named["gate_kernel"].assign([[np.log(6)]])
    named["gate_bias"].assign([-np.log(2)])
    context, weights = layer(query, value, return_attention_scores=True)
    np.testing.assert_allclose(array(weights), np.full((1, 1, 2, 2), 0.25), atol=1e-6)
    np.testing.assert_allclose(array(context), [[[7.5]]], atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_fully_masked_grid(mode: str) -> None:
    layer, (query, value, mask) = VisualAttention(8), grid()
    build_random(layer, query, value)
    mask[0] = False
    run = differentiable(
        layer, lambda q, v: layer(q, v, value_mask=mask, return_attention_scores=True), mode
    )
    dirty = np.where(mask[..., None], value, np.float32(np.nan))
    (context, weights), (by_query, by_value), by_weights = run(query, dirty)
    assert not context[0].any()
    assert not weights[0].any()
    assert not by_query[0].any()
    assert not by_value[~mask].any()
    assert by_value[1][mask[1]].any()
    assert all(np.isfinite(x).all() for x in (context, weights, by_query, by_value, *by_weights))


@pytest.mark.parametrize(("height", "width"), [(0, 5), (3, 0), (1, 1)])
def test_small_grids(height: int, width: int) -> None:
    layer = VisualAttention(8)
    layer(*grid()[:2])
    query, value, _ = grid(height, width)
    context, weights = layer(query, value, return_attention_scores=True)
    assert tuple(weights.shape) == (2, 4, height, width)
    if not height * width:
        assert not array(context).any()


def test_grids_of_unknown_size() -> None:
    query, value = keras.Input((None, 6)), keras.Input((None, None, 7))
    outputs = VisualAttention(8)(query, value, return_attention_scores=True, return_state=True)
    assert [tuple(x.shape) for x in outputs[:2]] == [(None, None, 7), (None, None, None, None)]
    model = keras.Model([query, value], outputs[:2])
    for size in ((3, 5), (7, 2)):
        states, image, _ = grid(*size)
        expected = model.layers[-1](states, image, return_attention_scores=True)
        close(model([states, image]), expected, 1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_decoder_attends_before_each_word(mode: str) -> None:
    """As in Xu et al.: h_{t-1} attends and sets the gate, then the cell takes word and context."""
    rng = np.random.default_rng(0)
    words, positions = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 6, 7))
    words, positions = words.astype("float32"), positions.astype("float32")
    mask = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]], "bool")
    attention = VisualAttention(5)
    cell = AttentionCell(
        layers.LSTMCell(6), attention, order="attend_then_step", output_attention=False
    )
    decoder = build_random(RecurrentDecoder(cell, alignment_history=True), words, positions)
    run = compiled(lambda x, m: decoder(x, m, memory_mask=mask), mode)
    outputs, (weights,) = run(words, positions)
    state, kernel = [np.zeros((2, 6), "float32")] * 2, numbers(attention)
    for t in range(3):
        scores = additive_scores(kernel, array(state[0])[:, None], positions)[:, 0]
        attention_weights = softmax(scores, mask)
        gate = 1 / (1 + np.exp(-(array(state[0]) @ kernel["gate_kernel"] + kernel["gate_bias"])))
        context = gate * np.einsum("bl,blc->bc", attention_weights, positions)
        close(array(weights)[:, t], attention_weights, 1e-5)
        inputs = np.concatenate([words[:, t], context], axis=-1).astype("float32")
        output, state = cell.cell(inputs, state)
        close(array(outputs)[:, t], output, 1e-5)


def test_invalid_arguments_are_rejected() -> None:
    query, value, mask = grid()
    with pytest.raises(ValueError, match="value must be"):
        VisualAttention()(query, value[..., None])
    with pytest.raises(ValueError, match=r"value_mask has shape \(2, 15\), but \(2, 3, 5\) is"):
        VisualAttention()(query, value, value_mask=mask.reshape(2, 15))
    with pytest.raises(
        ValueError, match=r"attention_mask has shape \(2, 4, 15\), but \(2, 4, None, None\) is"
    ):
        VisualAttention()(query, value, attention_mask=np.ones((2, 4, 15), "bool"))
    with pytest.raises(ValueError, match=r"attention_bias must be .* got shape \(2, 4, 15\)"):
        VisualAttention()(query, value, attention_bias=np.ones((2, 4, 15), "float32"))
    with pytest.raises(ValueError, match="value_mask has dtype float32"):
        VisualAttention()(query, value, value_mask=mask.astype("float32"))
    layer, row = VisualAttention(), value.reshape(2, 15, 7)
    layer(query, value)
    for values, keys in (
        (value, value[:, :2]),
        (value, value.reshape(2, 5, 3, 7)),
        (value, row),
        (row, value),
    ):
        for instance in (VisualAttention(), layer):
            with pytest.raises(ValueError, match=r"value and key must both be.*of the same grid"):
                instance(query, values, keys)
    with pytest.raises(ValueError, match=r"value and key .* number of steps, got 15 and 10"):
        VisualAttention()(query, row, row[:, :10])


def test_one_grid_for_several_queries() -> None:
    query, value, _ = grid()
    layer, one = VisualAttention(), value[:1]
    mask = np.random.default_rng(0).random((*query.shape[:2], *value.shape[1:3])) > 0.3
    actual = layer(query, one, attention_mask=mask)
    repeated = np.repeat(one, len(query), axis=0)
    close(actual, layer(query, repeated, attention_mask=mask), 1e-6)
