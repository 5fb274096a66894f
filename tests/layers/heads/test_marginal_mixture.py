from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import MarginalMixture, ReinforceAlignment
from attention_zoo.losses import Reinforce
from tests.layers.attention_case import softmax
from tests.layers.conformance import LayerConformance
from tests.layers.running import (
    JAX,
    MODES,
    WIDE,
    array,
    check_gradients,
    close,
    compiled,
    differentiable,
)


def random(
    batch: int = 3, steps: int = 4, sources: int = 5, words: int = 6, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights, some of them 0, and logits."""
    rng = np.random.default_rng(seed)
    mask = rng.random((batch, steps, sources)) > 0.3
    mask[..., :1] = True
    weights = softmax(rng.normal(size=(batch, steps, sources)), mask)
    logits = rng.normal(size=(batch, steps, sources, words))
    return weights.astype("float32"), logits.astype("float32")


def oracle(weights: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Compute the mixture by loops over positions and words, in float64."""
    weights, logits = weights.astype("float64"), logits.astype("float64")
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    mixed = np.zeros((*weights.shape[:2], logits.shape[-1]))
    for position in range(weights.shape[-1]):
        for word in range(logits.shape[-1]):
            mixed[..., word] += weights[..., position] * probabilities[..., position, word]
    with np.errstate(divide="ignore"):
        return np.where(weights.any(-1, keepdims=True), np.log(mixed), 0)


class TestMarginalMixture(LayerConformance):
    covers = MarginalMixture
    nan_positions = (0.0, 0.5, 0.76)  # logits whose weight is not 0

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        return random(batch)

    def dynamic_shape(self, x: np.ndarray) -> tuple[int | None, ...]:
        return (None, None, None, *x.shape[3:])


@pytest.mark.parametrize("mode", MODES)
def test_brute_force(mode: str) -> None:
    run = compiled(MarginalMixture(), mode)
    for seed in range(3 if JAX and mode == "eager" else 20):
        weights, logits = random(seed=seed)
        got = run(weights, logits)
        close(got, oracle(weights, logits), 1e-6)
        np.testing.assert_allclose(np.exp(array(got)).sum(-1), 1, atol=1e-6)


def test_by_hand() -> None:
    """1/4 of (1/2, 1/2) and 3/4 of (9/10, 1/10) is (8/10, 2/10)."""
    weights = np.array([[[0.25, 0.0, 0.75]]], "float32")
    logits = np.log(np.array([[[[0.5, 0.5], [0.01, 0.99], [0.9, 0.1]]]], "float32"))
    np.testing.assert_allclose(
        np.exp(array(MarginalMixture()(weights, logits)))[0, 0], [0.8, 0.2], rtol=1e-6
    )


def test_position_with_all_weight_determines_the_output() -> None:
    _, logits = random()
    weights = np.zeros((3, 4, 5), "float32")
    weights[..., 2] = 1
    single = ops.log_softmax(ops.convert_to_tensor(logits[..., 2, :]))
    close(MarginalMixture()(weights, logits), single, 1e-6)


def test_gradients_are_finite_differences() -> None:
    rng = np.random.default_rng(1)
    weights = softmax(rng.normal(size=(2, 3, 4)), np.True_).astype(WIDE)
    layer = MarginalMixture(dtype=WIDE)
    run = differentiable(layer, layer)
    check_gradients(layer, run, [weights, rng.normal(size=(2, 3, 4, 5)).astype(WIDE)])


@pytest.mark.parametrize("mode", MODES)
def test_zero_weights_pass_no_values(mode: str) -> None:
    weights, logits = random()
    weights[1, 2] = 0
    weights[0, 0] = [1, 2e-38, 1e-42, 0, 0]
    dirty = np.where(weights[..., None] > 1e-38, logits, np.float32(np.nan))
    layer = MarginalMixture()
    run = differentiable(layer, layer, mode)
    got, expected = run(weights, dirty), run(weights, logits)
    for a, b in zip(keras.tree.flatten(got), keras.tree.flatten(expected), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.isfinite(a).all()
    outputs, (by_weights, by_logits), _ = got
    close(outputs, oracle(weights, logits), 1e-6)
    assert not outputs[1, 2].any()
    assert not by_weights[1, 2].any()
    assert not by_logits[weights == 0].any()


def test_large_logits() -> None:
    weights = np.array([[[0.5, 0.5]]], "float32")
    logits = np.array([[[[1e5, -1e5], [-1e5, 1e5]]]], "float32")
    run = differentiable(keras.layers.Identity(), MarginalMixture())
    outputs, gradients, _ = run(weights, logits)
    np.testing.assert_allclose(outputs[0, 0], np.log([0.5, 0.5]), rtol=1e-6)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (3, 4, 0), (1, 1, 1)], ids=str)
def test_small_sizes(shape: tuple[int, int, int]) -> None:
    weights, logits = np.ones(shape, "float32"), np.zeros((*shape, 6), "float32")
    run = differentiable(keras.layers.Identity(), MarginalMixture())
    outputs, gradients, _ = run(weights, logits)
    assert outputs.shape == (*shape[:2], 6)
    assert np.isfinite(outputs).all()
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_gradient_agrees_with_reinforce() -> None:
    """With the reward p(y | s), REINFORCE has the same gradient, within 5 standard errors.

    With log p(y | s), as in Show, Attend and Tell, it maximizes a lower bound (Jensen).
    """
    count, label = 200_000, 2
    rng = np.random.default_rng(0)
    scores = rng.normal(size=5).astype("float32")
    logits = rng.normal(size=(1, 1, 5, 4)).astype("float32")
    probabilities = softmax(logits[0, 0].astype("float64"), np.True_)[:, label]
    mixture = MarginalMixture()

    def exact(scores: Any) -> Any:
        return ops.exp(mixture(ops.softmax(scores)[None, None], logits)[0, 0, label]) / np.cos(1)

    value, (expected,), _ = differentiable(mixture, exact)(scores)
    assert np.log(value * np.cos(1)) > softmax(scores.astype("float64"), np.True_) @ np.log(
        probabilities
    )

    align, term = ReinforceAlignment(seed=1), Reinforce(entropy_bonus=0)
    align.build((count, 5))
    term.baseline.assign(0.3)
    noise = align.sample_noise((count, 5), "float32")

    def sample(rows: Any) -> Any:
        start = align.initial_state(rows)
        weights, state = align(rows, state=start, noise=noise, training=True)
        reward = ops.matmul(weights, ops.cast(probabilities, "float32")[:, None])[:, 0]
        return -term(reward, align.choice(((), state)).log_probability) / np.cos(1)

    _, (each,), _ = differentiable(align, sample)(np.tile(scores, (count, 1)))
    each = each * count
    error = each.std(0) / np.sqrt(count)
    assert (np.abs(each.mean(0) - expected) <= 5 * error).all()
    assert (error < 0.01 * np.abs(expected).max()).all()


def test_wrong_shapes_are_rejected() -> None:
    weights, logits = random()
    with pytest.raises(ValueError, match=r"weights must be .* got shapes \(3, 4, 5\) and \(3, 5,"):
        MarginalMixture()(weights, logits[:, 0])
    with pytest.raises(ValueError, match=r"weights and logits .* number of sources, got 5 and 4"):
        MarginalMixture()(weights, logits[:, :, :4])
    with pytest.raises(ValueError, match=r"weights and logits .* number of steps, got 4 and 2"):
        MarginalMixture()(weights, logits[:, :2])
    layer = MarginalMixture()
    layer(weights, logits)
    with pytest.raises(ValueError, match=r"weights and logits .* number of sources, got 1 and 5"):
        layer(weights[..., :1], logits)


@pytest.mark.parametrize("mode", MODES)
def test_nan_weight_gives_nan(mode: str) -> None:
    """Also in graphs, where an optimizer may rewrite comparisons."""
    weights, logits = random()
    weights[0, 0, 0] = np.nan
    outputs = array(compiled(MarginalMixture(), mode)(weights, logits))
    assert np.isnan(outputs[0, 0]).all()
    assert not np.isnan(outputs[1:]).any()
