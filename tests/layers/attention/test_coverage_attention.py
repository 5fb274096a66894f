from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.layers import Attention, CoverageAttention
from tests.layers.attention_case import Array, Result, Weights, softmax
from tests.layers.running import MODES, array, compiled, normal
from tests.layers.stateful_conformance import StatefulAttentionConformance
from tests.layers.wrapper_conformance import WrapperConformance


class TestCoverageAttention(StatefulAttentionConformance, WrapperConformance):
    covers = CoverageAttention
    options = {"units": 8}
    changed = {"units": 9, "alignment": "hard", "dropout": 0.3, "seed": 5}

    def equivalent(self) -> Attention:
        return Attention("coverage", "softmax")

    def step_oracle(
        self, weights: Weights, query: Array, key: Array, mask: Array, state: Array
    ) -> Result:
        hidden = query @ weights["query_kernel"] + key @ weights["key_kernel"] + weights["bias"]
        hidden = hidden + state[:, None] * weights["coverage_kernel"]
        attention_weights = softmax(np.tanh(hidden) @ weights["v"], mask)
        return attention_weights, state + attention_weights


def make_layer(alignment: str, key_kernel: float, covered: float, v: float) -> CoverageAttention:
    """Return a layer with one hidden unit, `v tanh(key_kernel k + covered c)`."""
    layer = CoverageAttention(units=1, alignment=alignment)
    layer.build((1, 3, 1), (1, 3, 1))
    weights = [[0]], [[key_kernel]], [covered], [0], [v]
    layer.score.set_weights([np.array(x) for x in weights])
    return layer


def test_two_steps_by_hand() -> None:
    """First scores 0 and ln 3; the coverage of the first step sets the second score to 0."""
    a = np.arctanh(np.log(3) / 2)
    layer = make_layer("softmax", a, -4 * a / 3, 2)
    query, key = np.zeros((1, 2, 1), "float32"), np.array([[[0], [1]]], "float32")
    _, weights, state = layer(query, key, return_attention_scores=True, return_state=True)
    np.testing.assert_allclose(array(weights)[0, 0], [1 / 4, 3 / 4], rtol=1e-6)
    # c = (1/4, 3/4): tanh(-a / 3) and tanh(a - a)
    second = 1 / (1 + np.exp(2 * np.tanh(a / 3)))
    np.testing.assert_allclose(array(weights)[0, 1], [second, 1 - second], rtol=1e-6)
    np.testing.assert_allclose(array(state[0][0])[0], [0.25 + second, 1.75 - second], rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_covered_positions_are_not_attended_again(mode: str) -> None:
    """Hard attention selects keys from largest to smallest and skips masked ones and queries."""
    layer = make_layer("hard", 0.1, -5, 1)
    query = np.zeros((2, 4, 1), "float32")
    key = np.array([[[2], [3], [1]], [[2], [3], [1]]], "float32")
    memory = np.array([[1, 1, 1], [1, 0, 1]], "bool")
    query_mask = np.array([[1, 1, 1, 0], [0, 1, 0, 1]], "bool")
    run = compiled(lambda q, v: layer(q, v, query_mask=query_mask, value_mask=memory), mode)
    assert array(run(query, key))[..., 0].tolist() == [[3, 2, 1, 0], [0, 2, 0, 1]]


def test_coverage_sums_weights_before_dropout() -> None:
    """Coverage sums the weights as they are returned, before dropout."""
    layer = CoverageAttention(units=4, dropout=0.5, seed=1)
    query, value = normal((2, 2, 3, 4))[0]
    _, weights, ((coverage,), _) = layer(
        query, value, return_attention_scores=True, return_state=True, training=True
    )
    np.testing.assert_allclose(array(coverage), array(weights).sum(1), rtol=1e-5)


def test_units_default_to_the_width_of_the_query() -> None:
    layer = CoverageAttention()
    layer(np.ones((1, 2, 3), "float32"), np.ones((1, 2, 4), "float32"))
    assert [tuple(v.shape) for v in layer.weights] == [(3, 3), (4, 3), (3,), (3,), (3,)]
