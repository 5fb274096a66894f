"""Attention rollout and flow: worked values, independent oracles, padding, and bad inputs."""

from __future__ import annotations

import doctest
from typing import Any

import keras
import numpy as np
import pytest
from scipy.optimize import linprog

from attention_zoo.inspection import record, rollout
from attention_zoo.inspection.record import AttentionRecord
from attention_zoo.inspection.rollout import attention_flow, attention_rollout

TOLERANCE = {"rtol": 0, "atol": 1e-6}


def make_weights(*shape: int, seed: int = 0, concentration: float = 0.3) -> np.ndarray:
    """Random weights whose rows sum to 1; a small concentration makes them peaked."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(shape[-1], concentration), size=shape[:-1])


def compute_rollout(weights: np.ndarray) -> np.ndarray:
    """Rollout of one example `(N, H, T, T)` as the sum over all paths, by loops."""
    num_layers, num_heads, length, _ = weights.shape
    result = np.eye(length)
    for layer in range(num_layers):
        updated = np.zeros((length, length))
        for t in range(length):
            for s in range(length):
                mean = sum(weights[layer, h, t, s] for h in range(num_heads)) / num_heads
                updated[t] += (mean + (t == s)) / 2 * result[s]
        result = updated
    return result


def compute_flow(weights: np.ndarray, start: int, end: int) -> float:
    """Maximum flow of one example `(N, H, T, T)` as a linear program."""
    num_layers, _, length, _ = weights.shape
    capacities = (weights.mean(1) + np.eye(length)) / 2
    index = np.arange(capacities.size).reshape(capacities.shape)  # variable of each edge
    balance, gain = [], np.zeros(capacities.size)
    for layer in range(num_layers):
        for t in range(length):
            row = np.zeros(capacities.size)
            row[index[layer, t]] = 1
            if layer + 1 < num_layers:
                row[index[layer + 1, :, t]] = -1
                balance.append(row)
            elif t != start:
                balance.append(row)
    for s in range(length):
        if s != end:  # only one input position receives flow
            row = np.zeros(capacities.size)
            row[index[0, :, s]] = 1
            balance.append(row)
    gain[index[0, :, end]] = -1
    bounds = [(0, capacity) for capacity in capacities.ravel()]
    solution = linprog(gain, A_eq=np.array(balance), b_eq=np.zeros(len(balance)), bounds=bounds)
    assert solution.success
    return -solution.fun


def pad(weights: np.ndarray, count: int) -> np.ndarray:
    """Append padding to an example `(N, H, T, T)`: no query attends to it, it attends to tokens."""
    num_layers, num_heads, length, _ = weights.shape
    padded = np.zeros((num_layers, num_heads, length + count, length + count))
    padded[..., :length, :length] = weights
    padded[..., length:, :length] = make_weights(num_layers, num_heads, count, length, seed=9)
    return padded


def test_rollout_worked_by_hand() -> None:
    """Layer 1: A' = [[1, 0], [.5, .5]]; layer 2: A' = [[.75, .25], [.25, .75]]."""
    first = [[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]]
    second = [[[0.0, 1.0], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5]]]
    expected = [[0.75 + 0.125, 0.125], [0.25 + 0.375, 0.375]]
    np.testing.assert_allclose(attention_rollout([first, second]), expected, **TOLERANCE)


def test_rollout_equals_the_oracle_and_rows_sum_to_1() -> None:
    weights = make_weights(3, 2, 4, 6, 6)  # (N, B, H, T, T)
    result = attention_rollout(weights)
    for example in range(2):
        expected = compute_rollout(weights[:, example])
        np.testing.assert_allclose(result[example], expected, **TOLERANCE)
    np.testing.assert_allclose(result.sum(-1), 1.0, **TOLERANCE)
    np.testing.assert_allclose(attention_rollout(weights[:, 1]), result[1], **TOLERANCE)
    np.testing.assert_allclose(attention_rollout(list(weights)), result, **TOLERANCE)


def test_layers_may_differ_in_heads() -> None:
    one, two = make_weights(1, 5, 5), make_weights(1, 5, 5, seed=1)
    expected = attention_rollout([one, two])
    np.testing.assert_allclose(attention_rollout([one, [two[0], two[0]]]), expected, **TOLERANCE)


def test_causal_rollout_is_lower_triangular() -> None:
    weights = np.tril(make_weights(3, 2, 5, 5))
    weights /= weights.sum(-1, keepdims=True)
    result = attention_rollout(weights)
    assert np.array_equal(result, np.tril(result))
    assert not np.triu(attention_flow(weights), 1).any()
    np.testing.assert_allclose(result, compute_rollout(weights), **TOLERANCE)


@pytest.mark.parametrize("function", [attention_rollout, attention_flow])
def test_padding_changes_nothing_and_is_zero(function: Any) -> None:
    weights = make_weights(2, 2, 4, 4)
    expected = function(weights)
    mask = np.arange(6) < 4
    result = function(pad(weights, 2), mask)
    np.testing.assert_allclose(result[:4, :4], expected, **TOLERANCE)
    assert not result[4:].any()
    assert not result[:, 4:].any()


@pytest.mark.parametrize("function", [attention_rollout, attention_flow])
def test_weights_on_padding_are_removed_and_rows_renormalized(function: Any) -> None:
    """Half of each weight lies on padding, and all residual weights on tokens."""
    weights = make_weights(1, 1, 3, 3)
    padded = np.zeros((1, 1, 4, 4))
    padded[..., :3, :3], padded[..., :3, 3], padded[..., 3, 3] = weights / 2, 0.5, 1.0
    result = function(padded, [True, True, True, False])
    expected = (weights[0, 0] / 2 + np.eye(3)) / 1.5
    np.testing.assert_allclose(result[:3, :3], expected, **TOLERANCE)
    assert not result[3].any()
    assert not result[:, 3].any()


def test_examples_have_padding_of_their_own() -> None:
    weights = make_weights(2, 2, 4, 4)
    batch = np.stack([make_weights(2, 2, 6, 6, seed=1), pad(weights, 2)], axis=1)
    mask = [[True] * 6, [True] * 4 + [False] * 2]
    result = attention_rollout(batch, mask)
    np.testing.assert_allclose(result[0], attention_rollout(batch[:, 0]), **TOLERANCE)
    np.testing.assert_allclose(result[1, :4, :4], attention_rollout(weights), **TOLERANCE)


def test_padding_of_records_comes_from_their_masks() -> None:
    weights = make_weights(2, 2, 4, 4)
    mask = (np.arange(6) < 4)[None, None, None]
    records = [AttentionRecord("a", 0, layer[None], mask) for layer in pad(weights, 2)]
    result = attention_rollout(records)
    np.testing.assert_allclose(result[0, :4, :4], attention_rollout(weights), **TOLERANCE)
    assert not result[0, 4:].any()
    one_without = [records[0], records[1]._replace(mask=None)]
    assert attention_rollout(one_without)[0, 4:].any()


def test_zero_rows_and_columns_are_padding_but_unattended_tokens_are_not() -> None:
    weights = np.zeros((1, 1, 3, 3))
    weights[0, 0, :2, 0] = 1.0  # position 1 attends to 0, no query attends to it; 2 is padding
    expected = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(attention_rollout(weights), expected, **TOLERANCE)


def test_fully_masked_token_attends_to_itself() -> None:
    weights = np.zeros((1, 1, 2, 2))
    weights[0, 0, 0] = 0.5
    expected = [[0.75, 0.25], [0.0, 1.0]]
    np.testing.assert_allclose(attention_rollout(weights), expected, **TOLERANCE)


def test_example_of_padding_only_is_zero() -> None:
    weights = make_weights(2, 1, 1, 3, 3)
    mask = np.zeros((1, 3), bool)
    assert not attention_rollout(weights, mask).any()
    assert not attention_flow(weights, mask).any()


def test_recorded_weights_of_a_model() -> None:
    inputs = keras.Input((None, 4))
    states = inputs
    for number in range(2):
        attention = keras.layers.MultiHeadAttention(2, 2, name=f"layer_{number}")
        states = states + attention(states, states)
    model = keras.Model(inputs, states)
    with record(model) as weights:
        model(np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32"))
    records = [weights[f"layer_{number}"][0] for number in range(2)]
    result = attention_rollout(records)
    expected = compute_rollout(np.stack([r.weights[1] for r in records]).astype("float64"))
    np.testing.assert_allclose(result[1], expected, **TOLERANCE)
    with pytest.raises(ValueError, match=r"must be a list of layers, got AttentionRecords"):
        attention_rollout(weights)


def test_flow_of_one_layer_is_the_weight_and_of_two_a_sum_of_minima() -> None:
    weights = make_weights(2, 3, 5, 5)
    first, second = (weights.mean(1) + np.eye(5)) / 2
    np.testing.assert_allclose(attention_flow(weights[:1]), first, **TOLERANCE)
    expected = np.minimum(second[:, :, None], first[None]).sum(1)
    np.testing.assert_allclose(attention_flow(weights), expected, **TOLERANCE)


@pytest.mark.parametrize("concentration", [0.02, 0.3])
def test_flow_equals_a_linear_program(concentration: float) -> None:
    weights = make_weights(4, 1, 4, 4, concentration=concentration, seed=3)
    expected = [[compute_flow(weights, start, end) for end in range(4)] for start in range(4)]
    result = attention_flow(weights)
    np.testing.assert_allclose(result, expected, **TOLERANCE)
    assert result.max() <= 1


def test_linear_program_has_flows_below_the_trivial_bound() -> None:
    """Otherwise the smaller of 1 and the column sum of layer 1 would be enough."""
    weights = make_weights(4, 1, 4, 4, concentration=0.02, seed=3)
    bound = np.minimum(1, (weights[0, 0] + np.eye(4)).sum(0) / 2)
    assert (attention_flow(weights) < bound - 0.01).any()


def test_flow_from_selected_positions() -> None:
    weights = make_weights(2, 2, 1, 5, 5)
    result = attention_flow(weights, positions=[3, 0])
    assert result.shape == (2, 2, 5)
    np.testing.assert_allclose(result, attention_flow(weights)[:, [3, 0]], **TOLERANCE)


def test_flow_has_at_most_64_positions_without_padding() -> None:
    weights = make_weights(1, 1, 66, 66)
    message = "at most 64 positions that are not padding, got 66.*attention_rollout"
    with pytest.raises(ValueError, match=message):
        attention_flow(weights, positions=[0])
    mask = np.arange(66) >= 2
    assert attention_flow(weights, mask, positions=[5]).shape == (1, 66)
    mask[0] = True
    with pytest.raises(ValueError, match="got 65"):
        attention_flow(weights, mask, positions=[5])


@pytest.mark.parametrize("position", [-1, 3, 0.0, True])
def test_flow_rejects_other_positions(position: Any) -> None:
    with pytest.raises(ValueError, match="positions must be"):
        attention_flow(make_weights(1, 1, 3, 3), positions=[position])


NEGATIVE = np.array([[[1.5, -0.5], [0.5, 0.5]]])
BAD: dict[str, tuple[Any, Any, str]] = {
    "empty": ([], None, "at least one layer, got none"),
    "cross": (np.ones((1, 1, 2, 3)), None, r"layer 1 must be .* self-attention, got shape"),
    "rank": (np.ones((2, 2)), None, r"layer 1 must be \(H, T, T\)"),
    "no_heads": (np.ones((1, 0, 2, 2)), None, "layer 1 must be"),
    "lengths": ([np.ones((1, 2, 2)), np.ones((1, 3, 3))], None, "same shape, except H.*layer 2"),
    "batch": ([np.ones((1, 2, 2)), np.ones((1, 1, 2, 2))], None, "same shape, except H"),
    "nan": ([np.full((1, 2, 2), np.nan)], None, "layer 1 must be finite"),
    "negative": ([NEGATIVE], None, "at least 0, got -0.5"),
    "mask": (np.ones((1, 1, 2, 2)), [True], r"mask must be \(2,\), got shape \(1,\)"),
    "mask_batch": (np.ones((1, 3, 1, 2, 2)), [True, True], r"mask must be \(3, 2\), got"),
    "record": (AttentionRecord("a", 0, np.ones((1, 1, 2, 2)), None), None, "a list of layers"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("function", [attention_rollout, attention_flow])
def test_bad_input(name: str, function: Any) -> None:
    weights, mask, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        function(weights, mask)


def test_examples_of_the_docstrings() -> None:
    results = doctest.testmod(rollout)
    assert results.attempted
    assert not results.failed
