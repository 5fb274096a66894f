from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.layers import MixtureWindowAttention
from tests.layers.attention_case import Array, Result, Weights
from tests.layers.running import MODES, array, arrays, compiled, differentiable, normal
from tests.layers.stateful_conformance import StatefulAttentionConformance


class TestMixtureWindowAttention(StatefulAttentionConformance):
    """Narrow Gaussians at large positions amplify rounding errors of kappa: hence 1e-5."""

    covers = MixtureWindowAttention
    unused_inputs = (2,)  # the windows do not depend on keys
    options = {"num_components": 3}
    changed = {"num_components": 4, "dropout": 0.3, "seed": 5}
    sums_to_one = False
    uses_scores = False
    test_attention_bias_of_minus_infinity_masks = None
    test_attention_bias_at_masked_positions_has_no_effect = None
    test_invalid_attention_bias_is_rejected = None
    tolerance = 1e-5

    def tensors(self, *sizes: int, scale: float = 1.0, **named: int) -> tuple[Array, ...]:
        """Small queries, because they are exponentiated twice."""
        query, value, key = super().tensors(*sizes, scale=scale, **named)
        return 0.3 * query, value, key

    def start(self, sources: int) -> Array:
        return np.zeros(3)

    def step_oracle(
        self, weights: Weights, query: Array, key: Array, mask: Array, state: Array
    ) -> Result:
        """Equations 46 to 51, by loops over positions and Gaussians."""
        parameters = np.exp(query @ weights["kernel"] + weights["bias"])
        alpha, beta, kappa = parameters[:3], parameters[3:6], state + parameters[6:]
        attention_weights = np.zeros(len(key))
        for position in range(len(key)):
            for k in range(3):
                bell = np.exp(-beta[k] * (kappa[k] - (position + 1)) ** 2)
                attention_weights[position] += alpha[k] * bell * mask[position]
        return attention_weights, kappa


def one_bell(
    height: float, narrowness: float, step: float, features: int = 1
) -> MixtureWindowAttention:
    """Return a layer with one Gaussian and its memory; a query of 1 doubles the step."""
    layer = MixtureWindowAttention(num_components=1)
    layer.build((1, 3, 1), (1, 3, features))
    layer.alignment.bias.assign(np.log([height, narrowness, step]))
    layer.alignment.kernel.assign([[0, 0, np.log(2)]])
    return layer


@pytest.mark.parametrize("mode", MODES)
def test_by_hand(mode: str) -> None:
    """kappa = 1/2, 3/2, 2; at distance d the weight is `2 e^(-4 d^2)`."""
    layer = one_bell(2, 4, 0.5, features=3)
    query, value = np.array([[[0], [1], [0]]], "float32"), np.eye(3, dtype="float32")[None]
    run = compiled(lambda q, v: layer(q, v, return_attention_scores=True, return_state=True), mode)
    context, weights, (_, (kappa,)) = run(query, value)
    distances = np.array([[0.5, 1.5, 2.5], [0.5, 0.5, 1.5], [1, 0, 1]])
    np.testing.assert_allclose(array(weights)[0], 2 * np.exp(-4 * distances**2), rtol=1e-5)
    np.testing.assert_allclose(array(context), array(weights), rtol=1e-6)
    assert array(kappa).tolist() == [[2]]


def test_initial_windows_advance_by_one_position_with_weight_1() -> None:
    """Whatever the query is, as W starts at 0."""
    layer = MixtureWindowAttention(num_components=4)
    query = np.random.default_rng(0).normal(scale=100, size=(1, 40, 5)).astype("float32")
    value = np.ones((1, 60, 1), "float32")
    context, weights = layer(query, value, return_attention_scores=True)
    assert array(weights)[0].argmax(-1).tolist() == list(range(40))
    inside = slice(15, None)
    np.testing.assert_allclose(array(weights)[0, inside].sum(-1), 1, rtol=1e-2)
    np.testing.assert_allclose(array(context)[0, inside], 1, rtol=1e-2)
    kernel, bias = arrays(layer.weights)
    assert kernel.shape == (5, 12)
    assert not kernel.any()
    np.testing.assert_allclose(np.exp(bias[4:8]), 1 / np.arange(1, 5) ** 2, rtol=1e-6)
    areas = np.exp(bias[:4]) * np.sqrt(np.pi / np.exp(bias[4:8]))
    np.testing.assert_allclose(areas, 1 / 4, rtol=1e-6)


def test_components_receive_different_gradients() -> None:
    layer = MixtureWindowAttention(num_components=3)
    tensors = normal((2, 6, 4), (2, 9, 4))
    layer(*tensors)
    _, _, (of_kernel, _) = differentiable(layer, layer)(*tensors)
    gradients = of_kernel.reshape(4, 3, 3)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(gradients[..., a] - gradients[..., b]).max() > 1e-3


@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
def test_large_queries_stay_finite(size: float) -> None:
    layer = MixtureWindowAttention(num_components=2)
    rng = np.random.default_rng(0)
    query, value = (rng.normal(size=(2, n, 4)).astype("float32") for n in (50, 9))
    layer(query, value)
    layer.alignment.kernel.assign(rng.normal(size=(4, 6)))
    outputs, by_inputs, by_weights = differentiable(
        layer, lambda q, v: layer(q, v, return_attention_scores=True)
    )(query * np.float32(size), value)
    assert all(np.isfinite(x).all() for x in (*outputs, *by_inputs, *by_weights))


def test_exponents_are_clipped_at_20() -> None:
    layer = one_bell(1e30, 1, 0.5)
    value = np.zeros((1, 3, 1), "float32")
    _, weights = layer(value[:, :1], value, return_attention_scores=True)
    expected = np.exp(20 - (np.arange(1, 4) - 0.5) ** 2)  # positions count from 1
    np.testing.assert_allclose(array(weights)[0, 0], expected, rtol=1e-5)


def test_positions_count_from_the_first_valid_token() -> None:
    layer = one_bell(1, 5, 1)
    query, value = np.zeros((3, 2, 1), "float32"), np.ones((3, 5, 1), "float32")
    mask = np.array([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 1, 0, 1, 1]], "bool")
    _, weights = layer(query, value, value_mask=mask, return_attention_scores=True)
    first, second, third = array(weights)
    np.testing.assert_allclose(second[:, 2:], first[:, :3], rtol=1e-6)
    assert first.argmax(-1).tolist() == [0, 1]
    assert third[0].argmax() == 1
    np.testing.assert_allclose(third[1], [0, np.exp(-5), 0, np.exp(-5), np.exp(-20)], rtol=1e-5)
