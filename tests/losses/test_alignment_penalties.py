from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.losses import PENALTIES, mean_penalty
from tests.layers.running import (
    MODES,
    WIDE,
    array,
    check_gradients,
    close,
    compiled,
    differentiable,
)

QUERY = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]], "bool")
MEMORY = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], "bool")


def make_weights(heads: int = 0, seed: int = 0) -> np.ndarray:
    """Return attention weights `(4, [H], 4, 5)`: 0 at masked positions, rows of sum 1."""
    rng = np.random.default_rng(seed)
    raw = rng.random((4, heads, 4, 5) if heads else (4, 4, 5))
    is_unmasked = QUERY[:, :, None] & MEMORY[:, None]
    raw = raw * (is_unmasked[:, None] if heads else is_unmasked)
    total = raw.sum(-1, keepdims=True)
    return np.divide(raw, total, out=np.zeros_like(raw), where=total > 0).astype("float32")


def oracle(name: str, a: np.ndarray) -> float:
    """Compute the penalty of one unmasked example, weights `(T, S)`, in float64 loops."""
    steps, sources = a.shape
    if name == "doubly_stochastic":
        return sum((1 - sum(a[t, s] for t in range(steps))) ** 2 for s in range(sources))
    if name == "coverage":
        total = 0.0
        for t in range(steps):
            total += sum(min(a[t, s], sum(a[u, s] for u in range(t))) for s in range(sources))
        return total / steps
    if name == "diversity":
        return float(np.linalg.norm(a @ a.T - np.eye(steps)) ** 2)
    total = 0.0
    for t in range(steps):
        total += sum(-a[t, s] * np.log(a[t, s]) for s in range(sources) if a[t, s] > 0)
    return total / steps


def compute_expected(
    name: str, weights: np.ndarray, query: np.ndarray, memory: np.ndarray
) -> np.ndarray:
    """Compute the penalty of the unmasked part of each example (and head); 0 without steps."""
    out = np.zeros(weights.shape[:-2])
    for index in np.ndindex(*out.shape):
        row = index[0]
        if query[row].any() and memory[row].any():
            out[index] = oracle(name, weights[index][np.ix_(query[row], memory[row])].astype(float))
    return out


@pytest.mark.parametrize("heads", [0, 3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PENALTIES.names())
def test_penalties_equal_reference(name: str, mode: str, heads: int) -> None:
    penalty = PENALTIES.get(name)
    run = compiled(
        lambda w: (penalty(w, QUERY, MEMORY), mean_penalty(penalty, w, QUERY, MEMORY)), mode
    )
    for seed in range(5):
        weights = make_weights(heads, seed)
        actual, mean = run(weights)
        expected = compute_expected(name, weights, QUERY, MEMORY)
        close(actual, expected, 1e-6)
        assert float(array(mean)) == pytest.approx(expected[:2].mean(), rel=1e-6)


# Two steps over three sources.
WEIGHTS = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("doubly_stochastic", 0.5**2 + 0.5**2 + 1),  # sums over t: 0.5, 1.5, 0
        ("coverage", (0 + 0.5) / 2),  # the second step attends again to a half covered source
        ("diversity", 0.5**2 + 2 * 0.5**2 + 0),  # A A^T = [[0.5, 0.5], [0.5, 1]]
        ("entropy", np.log(2) / 2),
    ],
)
def test_penalty_equals_hand_computed_value(name: str, expected: float) -> None:
    actual = PENALTIES.get(name)(np.array([WEIGHTS], "float32"))
    np.testing.assert_allclose(array(actual), [expected], atol=1e-6)


@pytest.mark.parametrize("name", PENALTIES.names())
def test_gradients_equal_finite_differences(name: str) -> None:
    """All penalties are smooth at weights inside of (0, 1) without ties."""
    weights = np.random.default_rng(0).uniform(0.1, 0.9, size=(4, 2, 4, 5)).astype(WIDE)
    run = differentiable(keras.layers.Identity(), lambda w: PENALTIES.get(name)(w, QUERY, MEMORY))
    check_gradients(keras.layers.Identity(), run, [weights])


@pytest.mark.parametrize("fill", [np.nan, np.inf, 7.0])
@pytest.mark.parametrize("name", PENALTIES.names())
def test_masked_positions_have_no_effect(name: str, fill: float) -> None:
    weights = make_weights()
    is_unmasked = QUERY[:, :, None] & MEMORY[:, None]
    corrupted = np.where(is_unmasked, weights, np.float32(fill))
    penalty = PENALTIES.get(name)
    run = differentiable(keras.layers.Identity(), lambda w: mean_penalty(penalty, w, QUERY, MEMORY))
    expected, (clean_gradient,), _ = run(weights)
    actual, (gradient,), _ = run(corrupted)
    assert actual == expected
    np.testing.assert_array_equal(gradient, clean_gradient)
    assert not gradient[~is_unmasked].any()
    longer = np.full((4, 6, 9), np.float32(fill))
    longer[:, :4, :5] = weights
    masks = [np.zeros((4, n), "bool") for n in (6, 9)]
    masks[0][:, :4], masks[1][:, :5] = QUERY, MEMORY
    assert float(array(mean_penalty(penalty, longer, *masks))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PENALTIES.names())
def test_nan_gives_nan(name: str, mode: str) -> None:
    """NaN in one weight, and in all weights of an example."""
    weights = np.array([WEIGHTS] * 3, "float32")
    weights[0, 0, 0], weights[1] = np.nan, np.nan
    penalties = array(compiled(PENALTIES.get(name), mode)(weights))
    assert np.isnan(penalties).tolist() == [True, True, False]


@pytest.mark.parametrize("name", PENALTIES.names())
def test_examples_without_steps_are_excluded(name: str) -> None:
    """They are masked, or all their weights are 0."""
    penalty, weights = PENALTIES.get(name), make_weights()
    expected = float(array(mean_penalty(penalty, weights[:1], QUERY[:1], MEMORY[:1])))
    assert expected > 0
    masks = np.zeros_like(QUERY), np.zeros_like(MEMORY)
    for mask, full_mask in zip(masks, (QUERY, MEMORY), strict=True):
        mask[0] = full_mask[0]
    actual = mean_penalty(penalty, np.repeat(weights[:1], 4, 0), *masks)
    assert float(array(actual)) == pytest.approx(expected, rel=1e-6)
    with_empty = np.concatenate([weights[:1], np.zeros((3, 4, 5), "float32")])
    assert float(array(mean_penalty(penalty, with_empty))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shape", [(0, 4, 5), (2, 0, 5), (2, 4, 0), (2, 3, 0, 5)])
@pytest.mark.parametrize("name", PENALTIES.names())
def test_empty_inputs_give_zero(name: str, shape: tuple[int, ...]) -> None:
    weights = np.zeros(shape, "float32")
    penalty = PENALTIES.get(name)
    assert tuple(penalty(weights).shape) == shape[:-2]
    assert float(array(mean_penalty(penalty, weights))) == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", PENALTIES.names())
def test_half_precision_is_summed_in_float32(name: str, dtype: str) -> None:
    weights = ops.cast(make_weights(), dtype)
    actual = PENALTIES.get(name)(weights, QUERY, MEMORY)
    assert keras.backend.standardize_dtype(actual.dtype) == "float32"
    close(actual, compute_expected(name, array(weights), QUERY, MEMORY), 1e-5)


def test_masked_source_needs_no_attention() -> None:
    penalty = PENALTIES.get("doubly_stochastic")
    weights, mask = np.array([[[1.0, 0.0]]], "float32"), np.array([[1, 0]], "bool")
    assert array(penalty(weights)).tolist() == [1]
    assert array(penalty(weights, memory_mask=mask)).tolist() == [0]


def test_entropy_gradient_is_finite_at_one_hot_weights() -> None:
    """At 0 log 0, and for rows of zeros."""
    weights = np.array([[[1, 0, 0], [0, 0, 0]]], "float32")
    run = differentiable(keras.layers.Identity(), PENALTIES.get("entropy"))
    value, (gradient,), _ = run(weights)
    assert value.tolist() == [0]
    assert np.isfinite(gradient).all()


def test_invalid_arguments_raise() -> None:
    penalty: Any = PENALTIES.get("coverage")
    with pytest.raises(ValueError, match="weights must be"):
        penalty(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"query_mask has shape.*is expected"):
        penalty(np.ones((2, 3, 4)), np.ones((2, 4), "bool"))
    with pytest.raises(ValueError, match="memory_mask has dtype float32"):
        penalty(np.ones((2, 3, 4)), memory_mask=np.ones((2, 4), "float32"))
    with pytest.raises(ValueError, match="did you mean 'diversity'"):
        PENALTIES.get("diversiti")
