from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import (
    ALIGNMENTS,
    Alignment,
    Attention,
    DotScore,
    EntmaxAlignment,
    HardAlignment,
    LocalMonotonicAlignment,
    LocalPredictiveAlignment,
    SigmoidAlignment,
    SoftmaxAlignment,
    SparsemaxAlignment,
    TopKAlignment,
)
from attention_zoo.ops import Window
from tests.layers.attention_case import hard, softmax
from tests.layers.conformance import AlignmentConformance
from tests.layers.running import JAX, WIDE, array, check_gradients, differentiable
from tests.ops.test_sparse_softmax import oracle as entmax
from tests.variants import numerics_only


class TestSoftmaxAlignment(AlignmentConformance):
    covers = SoftmaxAlignment
    registered = "softmax"


class TestHardAlignment(AlignmentConformance):
    covers = HardAlignment
    registered = "hard"

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return hard(scores, mask)


def test_base_class_is_rejected() -> None:
    with pytest.raises(TypeError, match="base class"):
        Alignment()(np.zeros((1, 2), "float32"))


def test_softmax_by_hand() -> None:
    scores = np.log(np.array([[1.0, 2.0, 4.0, 8.0]], "float32"))
    weights, _ = SoftmaxAlignment()(scores, mask=np.array([[True, False, True, True]]))
    np.testing.assert_allclose(array(weights)[0], [1 / 13, 0, 4 / 13, 8 / 13], rtol=1e-6)


def test_hard_selects_the_first_of_equal_scores_without_gradient() -> None:
    layer = HardAlignment()
    run = differentiable(layer, lambda x: layer(x)[0])
    weights, (gradient,), _ = run(np.array([[1.0, 3.0, 3.0]], "float32"))
    assert weights.tolist() == [[0, 1, 0]]
    assert not gradient.any()


class SparseConformance(AlignmentConformance):
    """An alignment with exact zeros; scores get gradients."""

    @pytest.mark.numerics
    def test_gradients_are_finite_differences(self) -> None:
        layer = self.make(dtype=WIDE)
        ranks = np.random.default_rng(6).permuted(np.tile(np.arange(7), (4, 3, 1)), axis=-1)
        scores, mask = (-0.25 * ranks).astype(WIDE), ranks < 6  # no weight is small for a score
        mask[3] = False
        layer(scores)
        run = differentiable(layer, lambda x: layer(x, mask=mask)[0])
        check_gradients(layer, run, [scores])


class TestSparsemaxAlignment(SparseConformance):
    covers = SparsemaxAlignment
    registered = "sparsemax"

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return entmax(scores, mask, 2.0)


class TestEntmaxAlignment(SparseConformance):
    covers = EntmaxAlignment
    registered = "entmax"
    changed = {"alpha": 1.25, "learn_alpha": True}

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return entmax(scores, mask, 1.5)


@numerics_only
class TestLearnedEntmax(SparseConformance):
    covers = EntmaxAlignment
    options = {"alpha": 1.3, "learn_alpha": True}

    def make_random(self, **options: Any) -> EntmaxAlignment:
        """Keep the initial alpha, which the oracle uses."""
        layer = self.make(**options)
        layer.build((3, 4, 7))
        return layer

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return entmax(scores, mask, 1.3)


class TestTopKAlignment(SparseConformance):
    covers = TopKAlignment
    registered = "top_k"
    options = {"k": 3}
    changed = {"k": 5}

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        ranked = np.where(mask, -scores, np.inf)
        order = np.argsort(ranked, axis=-1, kind="stable")[..., :3]
        best = np.zeros(scores.shape, bool)
        np.put_along_axis(best, order, values=True, axis=-1)
        return softmax(scores, mask & best)


class TestSigmoidAlignment(SparseConformance):
    covers = SigmoidAlignment
    registered = "sigmoid"
    changed = {"bias_init": -2.0}
    sums_to_one = False
    at_most_one = False

    def make_random(self, **options: Any) -> SigmoidAlignment:
        """The oracle needs the bias, so it is a constructor argument and weights are not random."""
        layer = self.make(bias_init=0.5, **options)
        layer.build((3, 4, 7))
        return layer

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return np.where(mask, 1 / (1 + np.exp(-np.clip(scores + 0.5, -700, 700))), 0)


def test_sparsemax_by_hand() -> None:
    """Support of two: tau = (1.1 + .9 - 1) / 2 = .5, and the third score is below it."""
    scores = np.array([[1.1, 0.4, 0.9, 7.0]], "float32")
    weights, _ = SparsemaxAlignment()(scores, mask=np.array([[True, True, True, False]]))
    np.testing.assert_allclose(array(weights)[0], [0.6, 0, 0.4, 0], atol=1e-6)
    assert array(weights)[0, 1] == 0


def test_entmax_by_hand() -> None:
    """x = z / 2, weights are squares: (.4 - tau, .2 - tau) = (.8, .6) with tau = -.4."""
    weights, _ = EntmaxAlignment()(np.array([[0.8, -0.9, 0.4]], "float32"))
    np.testing.assert_allclose(array(weights)[0], [0.64, 0, 0.36], atol=1e-6)


def test_top_k_by_hand() -> None:
    """Of the allowed scores log 1, log 4, log 4 and log 2 the best two, the first of the equals."""
    scores = np.log(np.array([[1.0, 4.0, 9.0, 4.0, 2.0]], "float32"))
    mask = np.array([[True, True, False, True, True]])
    for k, expected in (
        (1, [0, 1, 0, 0, 0]),
        (2, [0, 1 / 2, 0, 1 / 2, 0]),
        (3, [0, 4 / 10, 0, 4 / 10, 2 / 10]),
        (9, [1 / 11, 4 / 11, 0, 4 / 11, 2 / 11]),
    ):
        weights, _ = TopKAlignment(k)(scores, mask=mask)
        np.testing.assert_allclose(array(weights)[0], expected, atol=1e-6)


def test_sigmoid_by_hand() -> None:
    weights, _ = SigmoidAlignment()(np.log(np.array([[3.0, 1.0, 1 / 3]], "float32")))
    np.testing.assert_allclose(array(weights)[0], [0.75, 0.5, 0.25], rtol=1e-6)
    rows, _ = SigmoidAlignment(-math.log(7))(np.zeros((1, 7), "float32"))
    assert array(rows).sum() == pytest.approx(7 / 8)


def test_learned_alpha_may_reach_its_limits() -> None:
    """Far out, sigmoid is 0 or 1 in float32: softmax and sparsemax, with finite gradients."""
    scores = np.random.default_rng(0).normal(size=(5, 9)).astype("float32")
    layer = EntmaxAlignment(1.5, learn_alpha=True)
    layer.build((5, 9))
    run = differentiable(layer, lambda x: layer(x)[0])
    ends = {-200.0: softmax(scores.astype("float64"), np.True_), 200.0: entmax(scores, np.True_, 2)}
    for logit, expected in ends.items():
        layer.alpha_logit.assign(logit)
        weights, (by_scores,), (by_logit,) = run(scores)
        np.testing.assert_allclose(weights, expected, atol=5e-6)
        assert np.isfinite(by_scores).all()
        assert np.isfinite(by_logit)


@pytest.mark.parametrize("name", ["sparsemax", "entmax", "top_k", "sigmoid", "gumbel", "reinforce"])
def test_lengths_may_change_from_batch_to_batch(name: str) -> None:
    query, value = keras.Input((None, 4)), keras.Input((None, 4))
    layer = Attention("dot" if name == "reinforce" else "general", name)  # sampling has no gradient
    readout = keras.layers.Dense(4)
    model = keras.Model([query, value], readout(layer(query, value)))
    model.compile("sgd", "mse", jit_compile=JAX)
    rng = np.random.default_rng(0)
    for steps, sources in ((3, 11), (2, 5), (1, 1)):
        inputs = [rng.normal(size=(2, n, 4)).astype("float32") for n in (steps, sources)]
        assert np.isfinite(model.train_on_batch(inputs, inputs[0]))
        expected = readout(layer(*[ops.convert_to_tensor(x) for x in inputs]))
        np.testing.assert_allclose(model.predict_on_batch(inputs), array(expected), atol=1e-6)


class TestLocalMonotonicAlignment(AlignmentConformance):
    covers = LocalMonotonicAlignment
    registered = "local_monotonic"
    changed = {"window": 1}


class TestLocalPredictiveAlignment(AlignmentConformance):
    """Every window starts at position 2 and aims at 3.25; D = 4, so sigma is 2."""

    covers = LocalPredictiveAlignment
    registered = "local_predictive"
    options = {"window": 4}
    changed = {"window": 3, "units": 5}
    sums_to_one = False

    def window(self, scores: Any) -> Window:
        nothing = ops.zeros_like(scores[..., :1], dtype="int32")
        inside = np.ones(scores.shape[-1], "bool")
        return Window(nothing + 2, inside, ops.cast(nothing, "float32") + 3.25)

    def apply(self, layer: Any, scores: Any, *state: Any) -> Any:
        return layer(scores, state=state, aux=self.window(scores))[0]

    def align(self, layer: Any, scores: Any, mask: Any = None) -> Any:
        scores = ops.convert_to_tensor(scores)
        return layer(scores, mask=mask, aux=self.window(scores))[0]

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        distance = 2 + np.arange(scores.shape[-1]) - 3.25
        return softmax(scores, mask) * np.exp(-(distance**2) / (2 * 2**2))

    def test_state_is_declared(self) -> None:
        layer, (scores,) = self.make_random(), self.tensors()
        assert not layer.is_stateful
        assert layer(scores, aux=self.window(scores))[1] == ()


def test_steps_are_counted() -> None:
    layer, scores = LocalMonotonicAlignment(1), np.zeros((2, 3), "float32")
    state = layer.initial_state(scores)
    for t in range(3):
        assert array(state[0]).tolist() == [[t], [t]]
        _, state = layer(scores, state=state)


@pytest.mark.parametrize("valid", [[1, 1, 1, 1], [0, 0, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]])
def test_masked_queries_are_not_counted(valid: list[int]) -> None:
    layer = LocalMonotonicAlignment()
    mask = ops.convert_to_tensor(np.array([valid], "bool"))
    (before,) = layer.compute_previous_states(ops.zeros((1, 9)), mask)
    assert array(before)[0, :, 0].tolist() == [sum(valid[:t]) for t in range(4)]
    (after,) = layer.compute_final_state((before + 1,), mask)
    assert array(after).tolist() == [[sum(valid)]]


class StatefulDotScore(DotScore):
    """A stateful score that is not registered."""

    def initial_state(self, like: Any) -> Any:
        return (like,)


@pytest.mark.parametrize("alignment", ["local_monotonic", "local_predictive"])
def test_stateful_score_is_rejected(alignment: str) -> None:
    """In the constructor, registered or not, and in a direct call without a state."""
    for score in ("coverage", StatefulDotScore()):
        with pytest.raises(ValueError, match=f"scores all source positions, but.*'{alignment}'"):
            Attention(score=score, alignment=alignment)
    with pytest.raises(ValueError, match="stateful score needs all source positions; use a"):
        ALIGNMENTS.get(alignment)().precompute(np.ones((1, 2, 3), "float32"), None, None)
