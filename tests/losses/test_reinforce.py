from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.layers import ReinforceAlignment
from attention_zoo.losses import Reinforce
from tests.layers.attention_case import softmax
from tests.layers.layer_conformance import LayerConformance
from tests.layers.running import MODES, POLICIES, array, close, compiled, differentiable, normal

COUNT = 200_000
SCORES = np.array([0.3, -0.5, 1.0, 40.0, 0.0], "float32")
MASK = np.array([1, 1, 1, 0, 1], "bool")
REWARDS = np.array([2.0, -1.0, 0.5, 99.0, 3.0])
"""Reward of each position; the fourth is masked."""


class TestReinforce(LayerConformance):
    covers = Reinforce
    changed = {"baseline_decay": 0.5, "coefficient": 0.1, "entropy_bonus": 0.0}

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng(0)
        reward, log_probability = rng.normal(size=batch), -rng.random(batch)
        return tuple(x.astype("float32") for x in (reward, log_probability, rng.random(batch)))

    def compute_outputs(self, layer: Any, *tensors: Any) -> Any:
        """Call twice: the second call uses the baseline that the first one updated."""
        return [layer(*tensors) for _ in range(2)]

    def test_empty_batch(self) -> None:
        term = Reinforce()
        term.baseline.assign(0.5)
        assert array(term(*self.tensors(0), training=True)) == 0
        assert array(term.baseline) == 0.5

    @pytest.mark.parametrize("policy", POLICIES)
    def test_dtype_policy(self, policy: str) -> None:
        """float32 under every policy: a reward may be far beyond half precision."""
        keras.config.set_dtype_policy(policy)
        term = Reinforce(entropy_bonus=0)
        got = term(np.full(2, 1e6, "float32"), np.full(2, -0.5, "float32"), training=True)
        assert keras.backend.standardize_dtype(got.dtype) == "float32"
        assert array(got) == pytest.approx(5e5)
        assert {v.dtype for v in term.weights} == {"float32"}
        assert array(term.baseline) == pytest.approx(1e5)

    test_dtype_argument_applies_to_every_weight = None  # float32 whatever its dtype, as above
    test_quantizes_or_warns = None  # without kernels


def test_loss_and_baseline_equal_hand_computed_values() -> None:
    """Rewards 3 and 1 against a baseline of 1, then of 1.5."""
    term = Reinforce(baseline_decay=0.5, coefficient=0.1, entropy_bonus=0.2)
    term.baseline.assign(1.0)
    inputs = [np.array(x, "float32") for x in ([3, 1], [-2, -5], [0.5, 1.5])]
    expected = -0.1 * (2 * -2 + 0 * -5) / 2 - 0.2 * 1
    assert array(term(*inputs)) == pytest.approx(expected)
    assert array(term.baseline) == 1
    assert array(term(*inputs, training=True)) == pytest.approx(expected)
    assert array(term.baseline) == pytest.approx(1.5)
    expected = -0.1 * (1.5 * -2 - 0.5 * -5) / 2 - 0.2 * 1
    assert array(term(*inputs, training=True)) == pytest.approx(expected)
    assert array(term.baseline) == pytest.approx(1.75)


def test_masked_examples_are_excluded_from_means() -> None:
    reward, log_probability, entropy = normal((3, 5))[0]
    mask = np.array([True, False, True, True, False])
    one, other = Reinforce(entropy_bonus=0.1), Reinforce(entropy_bonus=0.1)
    expected = one(reward[mask], log_probability[mask], entropy[mask], training=True)
    reward[~mask] = np.inf
    masked_loss = other(reward, log_probability, entropy, mask.astype("int32"), training=True)
    close(masked_loss, expected, 1e-6)
    close(other.baseline, one.baseline, 1e-6)
    empty_loss = other(reward, log_probability, entropy, np.zeros(5, "bool"), training=True)
    assert float(empty_loss) == 0
    close(other.baseline, one.baseline, 1e-6)


def test_reward_and_baseline_are_constants() -> None:
    term = Reinforce(coefficient=2.0, entropy_bonus=0.3)
    term.baseline.assign(0.25)
    run = differentiable(term, lambda *x: term(*x) / np.cos(1))
    inputs = [np.array(x, "float32") for x in ([3, 1], [-2, -5], [0.5, 1.5])]
    _, (by_reward, by_log_probability, by_entropy), by_weights = run(*inputs)
    assert not by_reward.any()
    np.testing.assert_allclose(by_log_probability, -2.0 * np.array([2.75, 0.75]) / 2, rtol=1e-6)
    np.testing.assert_allclose(by_entropy, [-0.15, -0.15], rtol=1e-6)
    assert by_weights == []


@pytest.mark.parametrize("mode", MODES[1:])
def test_baseline_is_updated_in_a_graph(mode: str) -> None:
    """The moving average of a constant reward is (1 - .9^n) of it."""
    term = Reinforce(entropy_bonus=0)
    reward = np.array([1.0, 3.0], "float32")

    def step(reward: Any, baseline: Any) -> Any:
        with keras.StatelessScope(state_mapping=[(term.baseline, baseline)]) as scope:
            term(reward, -reward, training=True)
        return scope.get_current_value(term.baseline)

    run, baseline = compiled(step, mode), np.float32(0)
    for _ in range(10):
        baseline = np.float32(array(run(reward, baseline)))
    assert baseline == pytest.approx(2 * (1 - 0.9**10), rel=1e-5)


def compute_sample_gradients(term: Reinforce, align: ReinforceAlignment) -> np.ndarray:
    """Return the gradient by the scores for each of COUNT samples, `(COUNT, S)`."""
    align.build((COUNT, 5))
    noise = align.sample_noise((COUNT, 5), "float32")
    rewards = REWARDS.astype("float32")[:, None]

    def sample_loss(rows: Any) -> Any:
        start = align.initial_state(rows)
        weights, state = align(rows, mask=MASK, state=start, noise=noise, training=True)
        return term(keras.ops.matmul(weights, rewards)[:, 0], *align.choice(((), state)))

    run = differentiable(align, lambda rows: sample_loss(rows) / np.cos(1))
    return COUNT * run(np.tile(SCORES, (COUNT, 1)))[1][0]


@pytest.mark.parametrize("baseline", [0.0, 1.5, -4.0])
def test_expected_gradient_is_that_of_the_expected_reward(baseline: float) -> None:
    """`-p_j (r_j - p . r) + bonus p_j (log p_j + H)`, within 5 standard errors of 200,000 samples.

    The baseline does not change the expectation.
    """
    term = Reinforce(entropy_bonus=0.3)
    term.baseline.assign(baseline)
    sample_gradients = compute_sample_gradients(term, ReinforceAlignment(seed=1))
    probs = softmax(SCORES.astype("float64"), MASK)
    logs = np.log(np.where(probs > 0, probs, 1))
    entropy = -(probs * logs).sum()
    expected = -probs * (REWARDS - probs @ REWARDS) + 0.3 * probs * (logs + entropy)
    error = sample_gradients.std(0) / np.sqrt(COUNT)
    assert (np.abs(sample_gradients.mean(0) - expected) <= 5 * error + 1e-7).all()
    assert (error < 0.02 * np.abs(expected).max()).all()
    assert not sample_gradients[:, 3].any()


STEPS, REGIONS, PATHS = 3, 4, 100_000
STEP_SCORES = np.random.default_rng(4).normal(size=(STEPS, REGIONS)).astype("float32")
TRANSITION_SCORES = np.random.default_rng(5).normal(size=(REGIONS, REGIONS)).astype("float32")
"""Scores of each step, and scores of transitions between regions."""
PATH_REWARDS = np.random.default_rng(6).normal(size=(REGIONS,) * STEPS).astype("float32")
"""Reward of each path."""


def compute_path_gradients(term: Reinforce, align: ReinforceAlignment) -> list[np.ndarray]:
    """Of each of PATHS walks over the regions, by FIRST and by FOLLOW."""
    align.build((PATHS, REGIONS))
    noise = [align.sample_noise((PATHS, REGIONS), "float32") for _ in range(STEPS)]

    def sample_path(first: Any, follow: Any) -> Any:
        state, weights_by_step = align.initial_state(first[:, 0]), []
        scores = first[:, 0]
        for t in range(STEPS):
            weights, state = align(scores, state=state, noise=noise[t], training=True)
            weights_by_step.append(weights)
            if t + 1 < STEPS:
                scores = first[:, t + 1] + keras.ops.einsum("ni,nij->nj", weights, follow)
        path_reward = keras.ops.einsum("ni,nj,nk,ijk->n", *weights_by_step, PATH_REWARDS)
        return term(path_reward, *align.choice(((), state))) / np.cos(1)

    of_each = [np.broadcast_to(x, (PATHS, *x.shape)) for x in (STEP_SCORES, TRANSITION_SCORES)]
    return [PATHS * x for x in differentiable(align, sample_path)(*of_each)[1]]


def test_gradient_over_three_steps_equals_sum_over_paths() -> None:
    """4 regions and 3 dependent steps, within 3 standard errors."""
    term = Reinforce(entropy_bonus=0)
    term.baseline.assign(0.7)
    got = compute_path_gradients(term, ReinforceAlignment(seed=6))
    expected = [np.zeros((STEPS, REGIONS)), np.zeros((REGIONS, REGIONS))]
    for path in np.ndindex(*PATH_REWARDS.shape):
        probability, by_first, by_follow = 1.0, *(np.zeros_like(x) for x in expected)
        for t, region in enumerate(path):
            scores = STEP_SCORES[t] + (TRANSITION_SCORES[path[t - 1]] if t else 0.0)
            probs = softmax(scores.astype("float64"), np.True_)
            probability *= probs[region]
            by_first[t] = np.eye(REGIONS)[region] - probs
            if t:
                by_follow[path[t - 1]] += by_first[t]
        expected[0] -= probability * PATH_REWARDS[path] * by_first
        expected[1] -= probability * PATH_REWARDS[path] * by_follow
    for sample_gradients, exact in zip(got, expected, strict=True):
        error = sample_gradients.std(0) / np.sqrt(PATHS)
        assert (np.abs(sample_gradients.mean(0) - exact) <= 3 * error + 1e-7).all()
        assert (error < 0.03 * np.abs(exact).max()).all()


def test_good_baseline_reduces_variance() -> None:
    variances = []
    for baseline in (-10.0, 0.0, float(softmax(SCORES.astype("float64"), MASK) @ REWARDS)):
        term = Reinforce(entropy_bonus=0)
        term.baseline.assign(baseline)
        variances.append(compute_sample_gradients(term, ReinforceAlignment(seed=1)).var(0).sum())
    assert variances[0] > 10 * variances[1] > 10 * variances[2]


def test_invalid_arguments_raise() -> None:
    rows = np.ones(3, "float32")
    with pytest.raises(ValueError, match=r"reward must be \(batch\), got shape \(3, 1\)"):
        Reinforce()(rows[:, None], rows, rows)
    with pytest.raises(ValueError, match=r"log_probability must be \(3\), got shape \(1,\)"):
        Reinforce()(rows, rows[:1], rows)
    with pytest.raises(ValueError, match=r"entropy must be \(3\), got shape \(3, 2\)"):
        Reinforce()(rows, rows, np.ones((3, 2), "float32"))
    with pytest.raises(ValueError, match=r"example_mask must be \(3\), got shape \(2,\)"):
        Reinforce()(rows, rows, rows, rows[:2] > 0)
    with pytest.raises(ValueError, match="example_mask has dtype float32, but masks are boolean"):
        Reinforce()(rows, rows, rows, rows)
    with pytest.raises(ValueError, match=r"entropy must be given for entropy_bonus=0\.002"):
        Reinforce()(rows, rows)
