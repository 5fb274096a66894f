from __future__ import annotations

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import Alignment, Attention, DotScore, HardAlignment, VisualAttention
from tests.layers.attention_case import Weights
from tests.layers.conformance import AttentionConformance
from tests.layers.running import MODES, array, close, compiled


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
