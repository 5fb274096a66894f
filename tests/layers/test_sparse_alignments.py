# ruff: noqa: RUF012
from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import (
    Attention,
    EntmaxAlignment,
    SigmoidAlignment,
    SparsemaxAlignment,
    TopKAlignment,
)
from tests.layers.attention_case import softmax
from tests.layers.conformance import AlignmentConformance
from tests.layers.running import JAX, MODES, WIDE, array, check_gradients, compiled, differentiable
from tests.variants import numerics_only


def entmax(scores: np.ndarray, mask: np.ndarray, alpha: float) -> np.ndarray:
    """The maximum of `p . z + (sum p - sum p^alpha) / (alpha (alpha - 1))`, from its conditions.

    `p_j^(alpha - 1) = (alpha - 1) z_j - tau` where p_j > 0; a row's tau by bisection in float64.
    """
    weights = np.zeros(np.broadcast_shapes(scores.shape, mask.shape))
    for row in np.ndindex(weights.shape[:-1]):
        allowed = np.broadcast_to(mask, weights.shape)[row]
        if not allowed.any():
            continue
        x = (alpha - 1) * scores[row][allowed]
        low, high = x.max() - 1, x.max()
        for _ in range(100):
            tau = (low + high) / 2
            above = (np.maximum(x - tau, 0) ** (1 / (alpha - 1))).sum() > 1
            low, high = (tau, high) if above else (low, tau)
        weights[row][allowed] = np.maximum(x - low, 0) ** (1 / (alpha - 1))
    return weights


class SparseConformance(AlignmentConformance):
    """An alignment with exact zeros; scores get gradients."""

    @pytest.mark.numerics
    def test_gradients_are_finite_differences(self) -> None:
        layer = self.make(dtype=WIDE)
        ranks = np.random.default_rng(6).permuted(np.tile(np.arange(7), (4, 3, 1)), axis=-1)
        scores, mask = (-0.25 * ranks).astype(WIDE), ranks < 6  # no weight begins near a score
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
    registered = "entmax"
    options = {"alpha": 1.3, "learn_alpha": True}
    changed = {"alpha": 1.25, "learn_alpha": False}

    def built(self, **options: Any) -> EntmaxAlignment:
        """alpha as made, which the oracle knows."""
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

    def built(self, **options: Any) -> SigmoidAlignment:
        """Random weights would hide the bias from the oracle, so it stands in the constructor."""
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
    for k, want in (
        (1, [0, 1, 0, 0, 0]),
        (2, [0, 1 / 2, 0, 1 / 2, 0]),
        (3, [0, 4 / 10, 0, 4 / 10, 2 / 10]),
        (9, [1 / 11, 4 / 11, 0, 4 / 11, 2 / 11]),
    ):
        weights, _ = TopKAlignment(k)(scores, mask=mask)
        np.testing.assert_allclose(array(weights)[0], want, atol=1e-6)


def test_sigmoid_by_hand() -> None:
    weights, _ = SigmoidAlignment()(np.log(np.array([[3.0, 1.0, 1 / 3]], "float32")))
    np.testing.assert_allclose(array(weights)[0], [0.75, 0.5, 0.25], rtol=1e-6)
    rows, _ = SigmoidAlignment(-math.log(7))(np.zeros((1, 7), "float32"))
    assert array(rows).sum() == pytest.approx(7 / 8)


@pytest.mark.full
def test_learned_alpha_goes_where_the_loss_is_low() -> None:
    """From 1.2 towards the alpha that made the weights, each step by the exact gradient."""
    scores = np.random.default_rng(0).normal(size=(64, 9)).astype("float32")
    want = entmax(scores.astype("float64"), np.True_, 1.8).astype("float32")
    layer = EntmaxAlignment(1.2, learn_alpha=True)
    layer.build((64, 9))
    probe = np.cos(np.arange(1) + 1.0)[0]
    run = differentiable(layer, lambda x: ops.sum((layer(x)[0] - want) ** 2) / probe)
    for _ in range(40):
        _, _, (by_logit,) = run(scores)
        layer.alpha_logit.assign_sub(2.0 * by_logit.astype("float32"))
    assert 1 + float(array(ops.sigmoid(layer.alpha_logit))) == pytest.approx(1.8, abs=0.02)


def test_learned_alpha_may_run_to_its_ends() -> None:
    """Far out, sigmoid is 0 or 1 in float32: softmax and sparsemax, with finite gradients."""
    scores = np.random.default_rng(0).normal(size=(5, 9)).astype("float32")
    layer = EntmaxAlignment(1.5, learn_alpha=True)
    layer.build((5, 9))
    run = differentiable(layer, lambda x: layer(x)[0])
    ends = {-200.0: softmax(scores.astype("float64"), np.True_), 200.0: entmax(scores, np.True_, 2)}
    for logit, want in ends.items():
        layer.alpha_logit.assign(logit)
        weights, (by_scores,), (by_logit,) = run(scores)
        np.testing.assert_allclose(weights, want, atol=5e-6)
        assert np.isfinite(by_scores).all()
        assert np.isfinite(by_logit)


@pytest.mark.parametrize("name", ["sparsemax", "entmax", "top_k", "sigmoid"])
def test_lengths_may_change_from_batch_to_batch(name: str) -> None:
    """One functional model, trained and run on rows of any length, the shorter than k as well."""
    query, value = keras.Input((None, 4)), keras.Input((None, 4))
    model = keras.Model([query, value], Attention("general", name)(query, value))
    model.compile("sgd", "mse", jit_compile=JAX)
    rng = np.random.default_rng(0)
    for steps, sources in ((3, 11), (2, 5), (1, 1)):
        given = [rng.normal(size=(2, n, 4)).astype("float32") for n in (steps, sources)]
        assert np.isfinite(model.train_on_batch(given, given[0]))
        layer = model.layers[-1]
        want = layer(*[ops.convert_to_tensor(x) for x in given])
        np.testing.assert_allclose(model.predict_on_batch(given), array(want), atol=1e-6)


@pytest.mark.parametrize("name", ["sparsemax", "entmax", "top_k"])
def test_a_row_of_many_is_sparse(name: str) -> None:
    rng = np.random.default_rng(0)
    query, value = (rng.normal(size=(2, n, 8)).astype("float32") for n in (4, 300))
    layer = Attention("dot", name)
    run = compiled(lambda q, v: layer(q, v, return_attention_scores=True), MODES[-1])
    layer(query, value)
    _, weights = run(query, value)
    assert ((array(weights) > 0).sum(-1) <= 20).all()
    np.testing.assert_allclose(array(weights).sum(-1), 1, atol=1e-6)
