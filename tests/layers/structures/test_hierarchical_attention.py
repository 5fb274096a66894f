from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import AttentionPooling, HierarchicalAttention, RecurrentEncoder
from attention_zoo.ops import implicit_mask
from tests.layers.attention_case import numbers, softmax
from tests.layers.running import (
    array,
    build_random,
    close,
    needs_dynamic_shapes,
    with_dynamic_shapes,
)
from tests.layers.structure_conformance import Arrays, StructureConformance
from tests.variants import numerics_only


def gru(cell: Any, inputs: np.ndarray) -> np.ndarray:
    """Return states `(L, H)` of Keras's GRU cell over `(L, D)`, in float64."""
    kernel, recurrent, bias = (array(v) for v in cell.weights)
    size, state, states = cell.units, np.zeros(cell.units), []
    for x in inputs:
        ours, theirs = x @ kernel + bias[0], state @ recurrent + bias[1]
        z, r = (1 / (1 + np.exp(-(ours[i : i + size] + theirs[i : i + size]))) for i in (0, size))
        state = z * state + (1 - z) * np.tanh(ours[2 * size :] + r * theirs[2 * size :])
        states.append(state)
    return np.array(states).reshape(-1, size)


def run_gru(encoder: Any, inputs: np.ndarray) -> np.ndarray:
    return gru(encoder.cell, inputs)


def both_ways(encoder: Any, inputs: np.ndarray) -> np.ndarray:
    back = run_gru(encoder.backward_layer, inputs[::-1])[::-1]
    return np.concatenate([run_gru(encoder.forward_layer, inputs), back], axis=-1)


def pooled(pooling: AttentionPooling, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """HAN's three equations over an unmasked `(L, D)`."""
    weights = numbers(pooling)
    bias = weights["query"] @ weights["query_kernel"]
    scores = np.tanh(states @ weights["key_kernel"] + bias) @ weights["v"]
    attention_weights = softmax(scores, np.ones(len(scores), "bool"))
    return attention_weights @ states, attention_weights


def level(layer: Any, number: int, inputs: np.ndarray, mask: np.ndarray) -> Any:
    """Pool the unmasked positions of one sequence; return the vector and the weights."""
    attention_weights = np.zeros(len(mask))
    if not mask.any():
        return np.zeros(layer.widths[number]), attention_weights
    states, encoder = inputs[mask], layer.encoders[number]
    if encoder is not None:
        ways = both_ways if isinstance(encoder, layers.Bidirectional) else run_gru
        states = ways(encoder, states)
    vector, attention_weights[mask] = pooled(layer.poolings[number], states)
    return vector, attention_weights


def documents(layer: Any, inputs: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, ...]:
    """Compute two levels by loops over sentences and documents, without masked positions."""
    words, sentences = np.zeros(mask.shape), np.zeros(mask.shape[:2])
    results = np.zeros((len(mask), layer.widths[1]))
    for row in range(len(mask)):
        vectors = np.zeros((mask.shape[1], layer.widths[0]))
        for position in range(mask.shape[1]):
            vectors[position], words[row, position] = level(
                layer, 0, inputs[row, position], mask[row, position]
            )
        results[row], sentences[row] = level(layer, 1, vectors, mask[row].any(-1))
    return results, words, sentences


class TestHierarchicalAttention(StructureConformance):
    covers = HierarchicalAttention
    changed = {"levels": lambda: [(None, AttentionPooling("general")), (None, AttentionPooling())]}
    lengths = (3, 4)
    pads = (1, 8)
    tolerance = oracle_tolerance = 1e-5
    oracle_cases = 6
    keras_cells = True

    def make(self, dtype: Any = None, **options: Any) -> HierarchicalAttention:
        words = layers.GRU(3, return_sequences=True, dtype=dtype)
        levels = [
            (words, AttentionPooling(units=4, dtype=dtype)),
            (None, AttentionPooling(units=5, dtype=dtype)),
        ]
        return HierarchicalAttention(**{"levels": levels, "dtype": dtype, **options})

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return ((batch, *lengths, 5),)

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        return documents(layer, tensors[0], masks[0])


@numerics_only
class TestOneLevelWithoutEncoder(StructureConformance):
    """Equals the pooling layer."""

    covers = HierarchicalAttention

    def make(self, dtype: Any = None, **options: Any) -> HierarchicalAttention:
        levels = [(None, AttentionPooling(units=4, dtype=dtype))]
        return HierarchicalAttention(**{"levels": levels, "dtype": dtype, **options})

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return ((batch, *lengths, 5),)

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        rows = [level(layer, 0, x, mask) for x, mask in zip(tensors[0], masks[0], strict=True)]
        vectors = np.array([v for v, _ in rows]).reshape(-1, 5)
        return vectors, np.array([w for _, w in rows]).reshape(masks[0].shape)


def han() -> HierarchicalAttention:
    """A small version of the paper's model: a bidirectional GRU at both levels."""
    words, sentences = (layers.Bidirectional(layers.GRU(n, return_sequences=True)) for n in (3, 2))
    return HierarchicalAttention(
        [(words, AttentionPooling(units=4)), (sentences, AttentionPooling())]
    )


def test_han_follows_the_paper() -> None:
    layer, rng = han(), np.random.default_rng(0)
    inputs, mask = rng.normal(size=(3, 4, 5, 6)), rng.random((3, 4, 5)) < 0.5
    mask[0, 1], mask[2] = False, False
    build_random(layer, inputs.astype("float32"))
    vectors, attention_weights = layer(
        inputs.astype("float32"), mask=mask, return_attention_scores=True
    )
    close([vectors, *attention_weights], documents(layer, inputs, mask), 1e-5)


def three_levels() -> HierarchicalAttention:
    return HierarchicalAttention(
        [
            (RecurrentEncoder("gru", 4, bidirectional=True), AttentionPooling(units=3)),
            (None, AttentionPooling(score="general")),
            (layers.Dense(6, activation="tanh"), AttentionPooling(alignment="hard")),
        ]
    )


def test_three_levels_are_three_poolings() -> None:
    """Any number of levels; encoders that also return states, no encoder, encoders without RNN."""
    rng, layer = np.random.default_rng(0), three_levels()
    inputs = rng.normal(size=(2, 2, 3, 4, 6)).astype("float32")
    mask = rng.random((2, 2, 3, 4)) < 0.4
    mask[0, 1], mask[1, 1, 2] = False, False
    build_random(layer, inputs)
    vector, weights = layer(inputs, mask=mask, return_attention_scores=True)
    assert [tuple(w.shape) for w in weights] == [(2, 2, 3, 4), (2, 2, 3), (2, 2)]
    vectors = np.zeros((2, 2, 3, 4), "float32")
    for position in np.ndindex(2, 2, 3):
        if mask[position].any():
            memory, _ = layer.encoders[0](inputs[position][mask[position]][None])
            vectors[position] = array(layer.poolings[0](memory))[0]
    upper = np.zeros((2, 2, 4), "float32")
    for position in np.ndindex(2, 2):
        valid = mask[position].any(-1)
        if valid.any():
            upper[position] = array(layer.poolings[1](vectors[position][valid][None]))[0]
    for row in range(2):
        valid = mask[row].any((-1, -2))
        expected = layer.poolings[2](layer.encoders[2](upper[row][valid][None]))
        close(array(vector)[row], array(expected)[0], 1e-5)
    present = (mask, mask.any(-1), mask.any((-1, -2)))
    for attention_weights, valid in zip(weights, present, strict=True):
        assert not array(attention_weights)[~valid].any()
        np.testing.assert_allclose(array(attention_weights).sum(-1), valid.any(-1), atol=1e-6)


def test_encoder_is_not_called_with_empty_sequences() -> None:
    """Keras's cuDNN kernels reject an empty mask, so the first position is used, with value 0."""
    calls: list[Any] = []

    class Spy(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.supports_masking = True

        def build(self, input_shape: Any) -> None:
            self.built = True

        def compute_output_shape(self, input_shape: Any) -> Any:
            return input_shape

        def call(self, inputs: Any, mask: Any = None) -> Any:
            calls.append((array(inputs), array(mask)))
            return inputs + 1

    layer = HierarchicalAttention([(Spy(), AttentionPooling())])
    inputs = np.full((3, 2, 1), 7, "float32")
    mask = np.array([[0, 0], [0, 1], [1, 0]], "bool")
    out = layer(inputs, mask=mask)
    ((inner_inputs, inner_mask),) = calls
    assert inner_inputs[..., 0].tolist() == [[0, 0], [0, 7], [7, 0]]
    assert inner_mask.tolist() == [[True, False], [False, True], [True, False]]
    assert array(out).tolist() == [[0], [8], [8]]


@pytest.mark.full
@needs_dynamic_shapes
def test_dynamic_lengths_of_0() -> None:
    layer = build_random(han(), np.ones((2, 3, 4, 5), "float32"))

    def run(inputs: Any) -> Any:
        return layer(inputs, return_attention_scores=True)

    graph = with_dynamic_shapes(run, (None, None, None, 5))
    for shape in ((0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 5)):
        inputs = np.random.default_rng(0).normal(size=shape).astype("float32")
        for got, expected in zip(
            keras.tree.flatten(graph(inputs)), keras.tree.flatten(run(inputs)), strict=True
        ):
            assert tuple(got.shape) == tuple(expected.shape)
            close(got, expected, 1e-5)


def test_mask_of_an_embedding_is_used_and_not_passed_on() -> None:
    tokens = keras.Input((None, None), dtype="int32")
    embedded = layers.Embedding(9, 6, mask_zero=True)(tokens)
    vector, weights = han()(embedded, return_attention_scores=True)
    model = keras.Model(tokens, [layers.Dense(2)(vector), *weights])
    ids = np.zeros((3, 3, 4), "int32")
    ids[0, 0, :2], ids[0, 1, :3], ids[1, 0] = (1, 2), (3, 4, 5), (5, 6, 7, 8)
    outputs, words, sentences = model(ids)
    assert implicit_mask(outputs) is None
    assert not array(words)[ids == 0].any()
    np.testing.assert_allclose(array(sentences).sum(-1), [1, 1, 0], atol=1e-6)
    close(model(ids[:1, :2, :3])[0], array(outputs)[:1], 1e-5)
    close(model(ids[1:2, :1])[0], array(outputs)[1:2], 1e-5)


def test_training_updates_every_level() -> None:
    levels = [(layers.Dropout(0.5), AttentionPooling()), (None, AttentionPooling(dropout=0.5))]
    layer, inputs = HierarchicalAttention(levels), np.ones((2, 3, 4, 5), "float32")
    expected = layer(inputs)
    close(layer(inputs, training=False), expected, 1e-7)
    assert np.abs(array(layer(inputs, training=True)) - array(expected)).max() > 1e-3


def test_invalid_arguments_are_rejected() -> None:
    pooling = AttentionPooling()
    for levels in ([], [pooling], [(None, None)], [(None, pooling, 1)], [("gru", pooling)], None):
        with pytest.raises(ValueError, match="levels must be a list of pairs of layers"):
            HierarchicalAttention(levels)
    layer = HierarchicalAttention([(None, AttentionPooling()), (None, AttentionPooling())])
    with pytest.raises(ValueError, match="inputs must have rank 4, with one axis for each of 2"):
        layer(np.ones((2, 3, 4), "float32"))
    inputs = np.ones((2, 3, 4, 5), "float32")
    layer(inputs)
    for levels, encoders in (
        ([(layers.GRU(3), AttentionPooling())], r"\(batch, steps, features\)"),
        ([(None, layers.Dense(3))], r"\(batch, features\)"),
    ):
        with pytest.raises(ValueError, match=rf"must be {encoders}, .* input shape \(None, 4, 5\)"):
            HierarchicalAttention(levels)(inputs[0])
    with pytest.raises(ValueError, match=r"\(2, 3\), but \(2, 3, 4\) is expected"):
        layer(inputs, mask=np.ones((2, 3), "bool"))
    carrying = ops.convert_to_tensor(inputs)
    keras.src.backend.set_keras_mask(carrying, ops.ones((2, 3), "bool"))
    with pytest.raises(ValueError, match="the Keras mask must have rank 3"):
        layer(carrying)
