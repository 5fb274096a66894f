from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import ALIGNMENTS, SCORES, AttentionPooling, LocationScore
from tests.layers.attention_case import numbers, softmax
from tests.layers.running import array, close, same
from tests.layers.structure_conformance import Arrays, StructureConformance
from tests.variants import numerics_only


def pooled(query: np.ndarray, weights: Any, inputs: np.ndarray, mask: np.ndarray) -> Any:
    """Bahdanau's attention with one query `(B, Dq)`, in float64."""
    hidden = (query @ weights["query_kernel"])[:, None] + inputs @ weights["key_kernel"]
    attention_weights = softmax(np.tanh(hidden) @ weights["v"], mask)
    return np.einsum("bs,bsd->bd", attention_weights, inputs), attention_weights


class TestAttentionPooling(StructureConformance):
    covers = AttentionPooling
    options = {"units": 8}
    changed = {"score": "general", "alignment": "hard", "units": 9, "dropout": 0.3, "seed": 5}
    together = {**StructureConformance.together, "score": {"units": None}}

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return ((batch, *lengths, 6),)

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        weights = numbers(layer)
        query = np.broadcast_to(weights["query"], (len(tensors[0]), 6))
        return pooled(query, weights, tensors[0], masks[0])


@numerics_only
class TestAttentionPoolingWithAQuery(TestAttentionPooling):
    """With a query input, such as the last state of an LSTM."""

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return (batch, *lengths, 6), (batch, 4)

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        inputs, query = tensors
        return pooled(query, numbers(layer), inputs, masks[0])


def test_by_hand() -> None:
    """Scores 0 and ln 3, so weights 1/4 and 3/4, of the values 4 and 8."""
    layer = AttentionPooling(score="dot")
    inputs = np.array([[[0.0, 4.0], [np.log(3), 8.0]]], "float32")
    layer(inputs)
    layer.weights[0].assign([1.0, 0.0])
    out, weights = layer(inputs, return_attention_scores=True)
    np.testing.assert_allclose(array(weights), [[0.25, 0.75]], atol=1e-6)
    np.testing.assert_allclose(array(out), [[0.75 * np.log(3), 7.0]], atol=1e-5)


@pytest.mark.parametrize("score", SCORES.names())
def test_every_score(score: str) -> None:
    score_layer = LocationScore(max_length=7) if score == "location" else score
    layer = AttentionPooling(score=score_layer)
    out, weights = layer(np.ones((2, 3, 4), "float32"), return_attention_scores=True)
    assert tuple(out.shape) == (2, 4)
    np.testing.assert_allclose(array(weights).sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("alignment", ALIGNMENTS.names())
def test_every_alignment(alignment: str) -> None:
    layer = AttentionPooling(alignment=alignment)
    mask = np.array([[1, 1, 1], [0, 0, 0]], "bool")
    out, weights = layer(
        np.ones((2, 3, 4), "float32"), mask=mask, return_attention_scores=True, training=True
    )
    assert tuple(weights.shape) == (2, 3)
    assert not array(out)[1].any()
    assert np.isfinite(array(out)).all()


def test_dropout_acts_in_training_only() -> None:
    inputs = np.random.default_rng(0).normal(size=(2, 9, 4)).astype("float32")
    layer = AttentionPooling(dropout=0.5, seed=1)
    expected = layer(inputs)
    same(layer(inputs, training=False), expected)
    assert np.abs(array(layer(inputs, training=True)) - array(expected)).max() > 1e-3


def test_no_mask_is_passed_on() -> None:
    """The state of an LSTM attends to its outputs; the pooled vector has no mask."""
    tokens = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
    outputs, state, _ = keras.layers.LSTM(5, return_sequences=True, return_state=True)(embedded)
    vector, weights = AttentionPooling()(outputs, state, return_attention_scores=True)
    model = keras.Model(tokens, [keras.layers.Dense(2)(vector), weights])
    ids = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8], [0, 0, 0, 0, 0]])
    logits, attention_weights = model(ids)
    assert not array(attention_weights)[ids == 0].any()
    np.testing.assert_allclose(array(attention_weights).sum(-1), [1, 1, 0], atol=1e-6)
    close(model(ids[:1, :3])[0], array(logits)[:1], 1e-5)


def test_invalid_arguments_are_rejected() -> None:
    inputs, query = np.ones((2, 3, 4), "float32"), np.ones((2, 5), "float32")
    with_weight, with_query = AttentionPooling(), AttentionPooling()
    with_weight(inputs)
    with_query(inputs, query)
    with pytest.raises(ValueError, match="built with a learned query"):
        with_weight(inputs, query)
    with pytest.raises(ValueError, match="built with an external query"):
        with_query(inputs)
    with pytest.raises(ValueError, match=r"query must be \(batch, features\)"):
        AttentionPooling()(inputs, query[:, None])
    with pytest.raises(ValueError, match=r"query must be \(batch, 5\)"):
        with_query(inputs, query[:, :4])
    with pytest.raises(ValueError, match="needs equal widths of query and key, got"):
        AttentionPooling(score="dot")(inputs, query)


def test_query_weight_exists_only_without_a_query_input() -> None:
    layer = AttentionPooling(score="general")
    layer(np.ones((2, 3, 4), "float32"), ops.ones((2, 5)))
    assert [tuple(v.shape) for v in layer.weights] == [(4, 5)]
