from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import MochaAlignment, MonotonicAlignment
from tests.layers.conformance import AlignmentConformance
from tests.layers.running import MODES, all_finite, array, close, differentiable, same
from tests.variants import numerics_only

BIAS = 0.5
"""The oracles need the bias, so it is a constructor argument and weights are not random."""


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -700, 700)))


def first_step(scores: np.ndarray, mask: np.ndarray, bias: float = BIAS) -> np.ndarray:
    """Soft first step from position 0: stop at j after skipping all positions before it."""
    stop = np.where(mask, sigmoid(scores + bias), 0)
    passed = np.cumprod(1 - stop, axis=-1)
    return stop * np.concatenate([np.ones_like(passed[..., :1]), passed[..., :-1]], axis=-1)


def first_stop(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Hard first step from position 0."""
    stops = mask & (scores + BIAS > 0)
    return (stops & (np.cumsum(stops, axis=-1) == 1)).astype("float64")


def distribute_in_chunks(
    stop: np.ndarray, energy: np.ndarray, mask: np.ndarray, width: int
) -> np.ndarray:
    """Distribute the weight of each stop by a softmax over its chunk; sum over stops."""
    weights = np.zeros(stop.shape)
    for index in np.ndindex(stop.shape):
        row, end = index[:-1], index[-1]
        chunk = [j for j in range(max(0, end - width + 1), end + 1) if mask[(*row, j)]]
        if chunk and stop[index]:
            energies = energy[row][chunk]
            probabilities = np.exp(energies - energies.max())
            for j, share in zip(chunk, probabilities / probabilities.sum(), strict=True):
                weights[(*row, j)] += stop[index] * share
    return weights


class TestMonotonicAlignment(AlignmentConformance):
    covers = MonotonicAlignment
    registered = "monotonic"
    options = {"hard_at_inference": False}
    changed = {
        "score_bias_init": -2.0,
        "sigmoid_noise": 0.7,
        "form": "recursive",
        "hard_at_inference": True,
        "seed": 3,
    }
    together = {"seed": {"sigmoid_noise": 1.0}}
    same_results = ("form",)  # both forms compute the same recurrence
    sums_to_one = False
    tolerance = 1e-5

    def make_random(self, **options: Any) -> Any:
        layer = self.make(score_bias_init=BIAS, **options)
        layer.build((3, 4, 7))
        return layer

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return first_step(scores, mask)


@numerics_only
class TestRecursiveMonotonicAlignment(TestMonotonicAlignment):
    options = {"hard_at_inference": False, "form": "recursive"}


@numerics_only
class TestHardMonotonicAlignment(TestMonotonicAlignment):
    options = {}

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return first_stop(scores.astype("float32"), mask)


class TestMochaAlignment(TestMonotonicAlignment):
    covers = MochaAlignment
    registered = "mocha"
    options = {"hard_at_inference": False, "chunk_size": 3}
    changed = {**TestMonotonicAlignment.changed, "chunk_size": 4, "chunk_score": "dot", "units": 9}

    def aux(self, scores: Any) -> Any:
        energy = 4 * np.cos(np.arange(scores.shape[-1]) + 1.0)
        return ops.zeros_like(scores) + energy.astype("float32")

    def apply(self, layer: Any, scores: Any, *state: Any) -> Any:
        return layer(scores, state=state, aux=self.aux(scores))[0]

    def align(self, layer: Any, scores: Any, mask: Any = None) -> Any:
        scores = ops.convert_to_tensor(scores)
        aux = self.aux(ops.cast(scores, "float32"))
        return layer(scores, mask=mask, state=layer.initial_state(scores), aux=aux)[0]

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        energy = np.broadcast_to(4 * np.cos(np.arange(scores.shape[-1]) + 1.0), scores.shape)
        return distribute_in_chunks(self.stop(scores, mask), energy, mask, 3)

    def stop(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return first_step(scores, mask)

    def test_state_is_declared(self) -> None:
        """The state contains the stop position, not the chunk weights."""
        layer, (scores, *_) = self.make_random(), self.tensors()
        state = layer.initial_state(ops.convert_to_tensor(scores))
        weights, (after,) = layer(scores, state=state, aux=self.aux(scores))
        assert layer.is_stateful
        stop = self.stop(scores, np.ones(scores.shape, "bool"))
        close(after, stop, 1e-5)
        assert np.abs(array(weights) - stop).max() > 0.1


@numerics_only
class TestHardMochaAlignment(TestMochaAlignment):
    options = {"chunk_size": 3}

    def stop(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return first_stop(scores.astype("float32"), mask)


def make_soft(form: str = "parallel", **options: Any) -> MonotonicAlignment:
    layer = MonotonicAlignment(form=form, hard_at_inference=False, **options)
    layer.build((1, 1))
    return layer


@pytest.mark.parametrize("form", ["parallel", "recursive"])
def test_second_step_by_hand(form: str) -> None:
    """Previous weights 1/2 at positions 0 and 1; stop probabilities 1/2, 1/4 and 3/4."""
    scores = np.log(np.array([[1.0, 1 / 3, 3.0]], "float32"))
    weights, _ = make_soft(form)(scores, state=(np.array([[0.5, 0.5, 0.0]], "float32"),))
    # q: 1/2; 1/2 * 1/2 + 1/2 = 3/4; 3/4 * 3/4 = 9/16
    np.testing.assert_allclose(array(weights)[0], [1 / 4, 3 / 16, 27 / 64], rtol=1e-6)


def test_weights_equal_the_defining_sum() -> None:
    """Equation 8 of Raffel et al.: `p_j sum_k previous_k prod_{l=k}^{j-1} (1 - p_l)`."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20, 9)).astype("float32")
    previous = rng.dirichlet(np.ones(9), size=20).astype("float32")
    p = sigmoid(scores.astype("float64"))
    expected = np.zeros((20, 9))
    for j in range(9):
        for k in range(j + 1):
            expected[:, j] += p[:, j] * previous[:, k] * np.prod(1 - p[:, k:j], axis=1)
    for form in ("parallel", "recursive"):
        close(make_soft(form)(scores, state=(previous,))[0], expected, 1e-6)


def test_attention_to_late_positions_does_not_underflow() -> None:
    """All weight at position 100 and p = 1/2: a division by a clipped 2^-100 would lose it."""
    scores = np.zeros((1, 200), "float32")
    previous = np.eye(200, dtype="float32")[100:101]
    weights, _ = make_soft()(scores, state=(previous,))
    expected = np.where(np.arange(200) >= 100, 0.5 ** (np.arange(200) - 99.0), 0)
    np.testing.assert_allclose(array(weights)[0], expected, rtol=1e-6)
    assert float(array(weights)[0, 100]) == 0.5


LONG = 2000


def long_scores() -> np.ndarray:
    """Return rows of stop probabilities 0, 1, both, 1/2, and random ones."""
    rng = np.random.default_rng(0)
    both = np.where(rng.random(LONG) < 0.01, 1e4, -1e4)
    rows = [np.full(LONG, -1e4), np.full(LONG, 1e4), both, np.zeros(LONG), rng.normal(size=LONG)]
    return np.stack(rows).astype("float32")


@pytest.mark.full
@pytest.mark.parametrize("form", ["parallel", "recursive"])
def test_thousands_of_steps_and_positions(form: str) -> None:
    """Three steps in sequence: finite values and gradients that agree with float64."""
    layer, scores = make_soft(form), long_scores()

    def run_steps(scores: Any) -> Any:
        def step(t: Any, so_far: Any) -> Any:
            (previous, total) = so_far
            weights, _ = layer.call(ops.roll(scores, t, axis=-1), None, (previous,))
            return weights, total + weights

        (start,) = layer.initial_state(scores)
        state = (start, ops.zeros_like(start))
        for t in (0, 7, 300):
            state = step(t, state)
        return state

    (last, total), (gradient,), (by_bias,) = differentiable(layer, run_steps, MODES[1])(scores)
    weights, expected = np.eye(LONG)[:1], 0
    for t in (0, 7, 300):
        p, q = sigmoid(np.roll(scores, t, axis=-1).astype("float64")), np.zeros((5, LONG))
        for j in range(LONG):
            q[:, j] = weights[..., j] + (q[:, j - 1] * (1 - p[:, j - 1]) if j else 0)
        weights = p * q
        expected = expected + weights
    np.testing.assert_allclose(last, weights, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-12)
    assert np.isfinite(gradient).all()
    assert np.isfinite(by_bias)
    assert gradient[3:].any(axis=1).all()


def test_noise_is_seeded_and_only_in_training() -> None:
    layer, same_seed, other = (MonotonicAlignment(sigmoid_noise=2.0, seed=s) for s in (1, 1, 2))
    samples = [array(x.sample_noise((4, 50, 50), "float32")) for x in (layer, same_seed, other)]
    assert np.array_equal(samples[0], samples[1])
    assert not np.array_equal(samples[0], samples[2])
    assert not np.array_equal(samples[0], array(layer.sample_noise((4, 50, 50), "float32")))
    assert abs(samples[0].std() - 2) < 0.05
    assert abs(samples[0].mean()) < 0.05
    assert MonotonicAlignment().sample_noise((2, 3), "float32") is None


def test_noise_is_added_to_scores() -> None:
    layer, rng = make_soft(), np.random.default_rng(0)
    scores, noise = (rng.normal(size=(3, 5)).astype("float32") for _ in range(2))
    state = layer.initial_state(scores)
    got, _ = layer(scores, state=state, noise=noise, training=True)
    expected, _ = layer(scores + noise, state=state)
    close(got, expected, 1e-6)


def test_chunks_by_hand() -> None:
    """Stops at positions 1 and 3 with 1/2 each; energies 0, log 3, 0, log 3; chunks of 2.

    From position 1: 1/4 and 3/4 of 1/2; from position 3 the same.
    """
    layer = MochaAlignment(2, hard_at_inference=False)
    layer.build((1, 4))
    certain = np.array([[-1e4, 0.0, -1e4, 1e4]], "float32")
    energy = np.log(np.array([[1.0, 3, 1, 3]], "float32"))
    weights, _ = layer(certain, state=layer.initial_state(certain), aux=energy)
    np.testing.assert_allclose(array(weights)[0], [1 / 8, 3 / 8, 1 / 8, 3 / 8], rtol=1e-5)


@pytest.mark.parametrize("width", [1, 2, 5, 40])
def test_chunk_widths(width: int) -> None:
    """Width 1 is monotonic attention; a width above S covers all positions up to the stop."""
    rng = np.random.default_rng(0)
    scores, energy = (rng.normal(size=(4, 9)).astype("float32") for _ in range(2))
    mask = rng.random((4, 9)) > 0.3
    layer = MochaAlignment(width, score_bias_init=BIAS, hard_at_inference=False)
    layer.build(scores.shape)
    state = layer.initial_state(scores)
    weights, (stop,) = layer(scores, mask=mask, state=state, aux=energy)
    close(
        weights,
        distribute_in_chunks(first_step(scores, mask), energy.astype("float64"), mask, width),
        1e-5,
    )
    if width == 1:
        close(weights, stop, 1e-6)
    np.testing.assert_allclose(array(weights).sum(-1), array(stop).sum(-1), rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_chunks_at_extreme_energies(mode: str) -> None:
    """A softmax that subtracts the maximum of the full row gives 0 / 0 in other chunks."""
    energy = np.array(
        [[1e4, 0, 0, -1e4, -1e4], [-1e30, -1e30, -1e30, 1e30, 0], [3e38, -3e38, 3e38, 1, 2]],
        "float32",
    )
    scores = np.full((3, 5), 1.0, "float32")
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], "bool")
    layer = MochaAlignment(2, hard_at_inference=False)
    layer.build(scores.shape)
    state = layer.initial_state(scores)

    def step(scores: Any, energy: Any) -> Any:
        return layer(scores, mask=mask, state=state, aux=energy)[0]

    weights, gradients, _ = differentiable(layer, step, mode)(scores, energy)
    expected = distribute_in_chunks(first_step(scores, mask, 0), energy.astype("float64"), mask, 2)
    np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-30)
    assert all(np.isfinite(x).all() for x in gradients)
    assert not gradients[0][~mask].any()
    assert not gradients[1][~mask].any()


def test_energies_at_masked_positions_do_not_affect_outputs() -> None:
    rng = np.random.default_rng(0)
    scores, energy = (rng.normal(size=(2, 6)).astype("float32") for _ in range(2))
    mask = np.array([[1, 0, 1, 1, 0, 1], [0, 0, 1, 1, 0, 0]], "bool")
    layer = MochaAlignment(3, hard_at_inference=False)
    layer.build(scores.shape)
    run = differentiable(
        layer, lambda s, u: layer(s, mask=mask, state=layer.initial_state(s), aux=u)[0]
    )
    dirty = [
        np.where(mask, x, np.float32(fill)) for x, fill in ((scores, np.nan), (energy, np.nan))
    ]
    clean = [np.where(mask, x, np.float32(0)) for x in (scores, energy)]
    same(run(*dirty), run(*clean))
    assert all_finite(run(*dirty))


def test_chunk_energies_are_required() -> None:
    with pytest.raises(ValueError, match="mocha needs aux, the chunk scores"):
        TestMochaAlignment().make_random()(np.zeros((1, 3)), state=(np.zeros((1, 3)),))
