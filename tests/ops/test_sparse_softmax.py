from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keras import ops

from attention_zoo.ops import entmax, hardmax, masked_softmax, sparsemax, top_k_mask
from tests.layers.running import (
    JAX,
    MODES,
    QUICK,
    WIDE,
    array,
    close,
    compiled,
    differentiable,
    double_precision,
    needs_dynamic_shapes,
    with_dynamic_shapes,
)
from tests.tiers import FULL

ALPHAS = (1.1, 1.3, 1.5, 1.75, 2.0)
NOTHING = keras.layers.Identity()


def oracle(scores: np.ndarray, mask: np.ndarray, alpha: float) -> np.ndarray:
    """`((alpha - 1) z_j - tau)_+^(1 / (alpha - 1))`, tau by bisection in float64, row by row."""
    weights = np.zeros(scores.shape)
    for row in np.ndindex(scores.shape[:-1]):
        allowed = np.broadcast_to(mask, scores.shape)[row]
        if not allowed.any():
            continue
        x = (alpha - 1) * scores[row][allowed].astype("float64")
        low, high = x.max() - 1, x.max()
        for _ in range(100):
            tau = (low + high) / 2
            total = (np.maximum(x - tau, 0) ** (1 / (alpha - 1))).sum()
            low, high = (tau, high) if total > 1 else (low, tau)
        weights[row][allowed] = np.maximum(x - low, 0) ** (1 / (alpha - 1))
    return weights


def jacobian(weights: np.ndarray, alpha: float) -> np.ndarray:
    """`diag(s) - s s' / sum(s)`, `s_j = weights_j^(2 - alpha)` on the support, of one row."""
    s = np.where(weights > 0, np.where(weights > 0, weights, 1) ** (2 - alpha), 0)
    return np.diag(s) - np.outer(s, s) / s.sum()


RUNS: dict[float, Any] = {
    alpha: compiled(lambda x, mask, alpha=alpha: entmax(x, mask, alpha), MODES[1])
    for alpha in ALPHAS
}


@settings(max_examples=200 if FULL else 50)
@pytest.mark.parametrize("alpha", ALPHAS)
@given(
    scores=hnp.arrays("float32", (3, 6), elements=st.floats(-1e5, 1e5, width=32)),
    mask=hnp.arrays("bool", (3, 6)),
)
def test_oracle_on_great_scores(alpha: float, scores: np.ndarray, mask: np.ndarray) -> None:
    weights = array(RUNS[alpha](scores, mask))
    np.testing.assert_allclose(weights, oracle(scores, mask, alpha), atol=2e-6)
    np.testing.assert_allclose(weights.sum(-1), mask.any(-1), atol=1e-6)


@settings(max_examples=200 if FULL else 50)
@pytest.mark.parametrize("alpha", ALPHAS)
@given(
    scores=hnp.arrays("float32", (3, 6), elements=st.floats(-2, 2, width=32)),
    mask=hnp.arrays("bool", (3, 6)),
)
def test_oracle_on_close_scores(alpha: float, scores: np.ndarray, mask: np.ndarray) -> None:
    weights = array(RUNS[alpha](scores, mask))
    np.testing.assert_allclose(weights, oracle(scores, mask, alpha), atol=2e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_every_path(alpha: float, mode: str) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2, 3, 9)).astype("float32")
    mask = rng.random((2, 1, 9)) > 0.3
    got = compiled(lambda x: entmax(x, mask, alpha), mode)(scores)
    close(got, oracle(scores, mask, alpha), 1e-6)


def test_published_figures() -> None:
    """The example of the authors' package, github.com/deep-spin/entmax, README."""
    scores = np.array([-2, 0, 0.5], "float32")
    np.testing.assert_allclose(array(sparsemax(scores)), [0, 0.25, 0.75], atol=1e-6)
    np.testing.assert_allclose(array(entmax(scores)), [0, 0.3260, 0.6740], atol=5e-5)
    rows = np.array([[-1, 0, 0.5], [1, 2, 3.5]], "float32")
    first = differentiable(NOTHING, lambda alpha: entmax(rows, None, alpha)[0, 0])
    weight, (by_alpha,), _ = first(np.float32(1.33))
    assert weight == pytest.approx(0.0460, abs=5e-5)
    assert by_alpha / np.cos(1) == pytest.approx(-0.2562, abs=5e-5)
    expected = [[0.0460, 0.3276, 0.6264], [0.0026, 0.1012, 0.8963]]
    np.testing.assert_allclose(array(entmax(rows, None, 1.33)), expected, atol=5e-5)


def test_by_hand() -> None:
    """Square roots .8 and .6 of the weights, so halves of the scores .2 apart; tau is -.6.

    A third score of -1.2 stands on the edge of the support, one of -1.1 inside of it.
    """
    for third in (-1.2, -1.3, -50.0):
        weights = array(entmax(np.array([[0.4, 0.0, third]], "float32")))[0]
        np.testing.assert_allclose(weights, [0.64, 0.36, 0], atol=1e-6)
    assert array(entmax(np.array([[0.4, 0.0, -1.1]], "float32")))[0, 2] > 1e-4
    hidden = array(entmax(np.array([[0.4, 9.0, 0.0]], "float32"), np.array([[True, False, True]])))
    np.testing.assert_allclose(hidden[0], [0.64, 0, 0.36], atol=1e-6)


def test_sparsemax_is_the_nearest_point() -> None:
    """No other point of the simplex is nearer to the scores."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        scores = rng.normal(size=8)
        weights = array(sparsemax(scores.astype("float32")))
        others = rng.dirichlet(np.full(8, 0.3), size=500)
        assert ((others - scores) ** 2).sum(-1).min() >= ((weights - scores) ** 2).sum() - 1e-6


def test_between_softmax_and_sparsemax() -> None:
    scores = np.random.default_rng(2).normal(size=(50, 12)).astype("float32")
    soft = array(masked_softmax(scores))
    gaps = [np.abs(array(entmax(scores, None, 1 + a)) - soft).max() for a in (1e-6, 1e-4, 1e-2, 1)]
    assert gaps[0] < 2e-6
    assert gaps[1] < 2e-4
    assert gaps == sorted(gaps)
    sizes = [(array(entmax(scores, None, alpha)) > 0).sum() for alpha in ALPHAS]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 2 * sizes[-1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_gradient_is_the_jacobian(alpha: float, mode: str) -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(6, 8)).astype("float32")
    mask = rng.random((6, 8)) > 0.2
    run = differentiable(NOTHING, lambda x: entmax(x, mask, alpha), mode)
    weights, (gradient,), _ = run(scores)
    probe = np.cos(np.arange(48) + 1.0).reshape(6, 8)
    expected = [jacobian(w, alpha) @ p for w, p in zip(weights, probe, strict=True)]
    np.testing.assert_allclose(gradient, expected, atol=2e-6)
    assert not gradient[weights == 0].any()


@pytest.mark.parametrize("alpha", ALPHAS)
def test_gradients_are_finite_differences(alpha: float) -> None:
    """By scores and by alpha, against differences of the oracle in float64."""
    scores = np.random.default_rng(4).normal(size=(4, 9))
    run = differentiable(NOTHING, lambda x, alpha: entmax(x, None, alpha))
    at, bound = np.float64(min(alpha, 1.99)), 1e-4 if JAX else 1e-5
    _, (by_scores, by_alpha), _ = run(scores.astype(WIDE), at.astype(WIDE))

    def total(scores: np.ndarray, alpha: float) -> float:
        return float((oracle(scores, np.True_, alpha).ravel() * np.cos(np.arange(36) + 1.0)).sum())

    step = 1e-5
    slope = (total(scores, at + step) - total(scores, at - step)) / (2 * step)
    assert by_alpha == pytest.approx(slope, rel=bound, abs=bound / 10)
    for index in ((0, 0), (1, 4), (2, 8), (3, 1)):
        shift = np.zeros_like(scores)
        shift[index] = step
        slope = (total(scores + shift, at) - total(scores - shift, at)) / (2 * step)
        assert by_scores[index] == pytest.approx(slope, rel=bound, abs=bound / 10)


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0])
@pytest.mark.parametrize("spread", [1e-6, 1e-3, 0.1, 1, 10, 1000])
def test_long_rows(alpha: float, spread: float) -> None:
    """From 20 000 positions with equal weights to one position with weight 1."""
    scores = spread * np.random.default_rng(5).normal(size=(2, 20000))
    scores = scores.astype("float32")
    run = differentiable(NOTHING, lambda x: entmax(x, None, alpha))
    weights, (gradient,), _ = run(scores)
    expected = oracle(scores, np.True_, alpha)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(weights, expected, atol=1e-6 * expected.max())
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_edges_are_finite(alpha: float, mode: str) -> None:
    """Rows that are empty, of one position, with ties, and with a score at the edge."""
    edge = -1 / (alpha - 1)
    scores = np.array(
        [[1, np.nan, np.inf], [np.inf, 1e5, np.nan], [2, 2, 2], [0, edge, edge], [1e5, -1e5, 1e5]],
        "float32",
    )
    mask = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1]], "bool")
    run = differentiable(NOTHING, lambda x: entmax(x, mask, alpha), mode)
    weights, (gradient,), _ = run(scores)
    expected = [[0, 0, 0], [0, 1, 0], [1 / 3, 1 / 3, 1 / 3], [1, 0, 0], [0.5, 0, 0.5]]
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    assert np.isfinite(gradient).all()
    assert not gradient[~mask].any()
    assert np.abs(gradient[1]).max() < 1e-6


@pytest.mark.parametrize("mode", MODES)
def test_gradient_by_alpha_of_edges_is_finite(mode: str) -> None:
    scores = np.array([[1, np.nan], [3, -1e5], [0, 0], [np.nan, np.inf]], "float32")
    mask = np.array([[1, 0], [1, 1], [1, 1], [0, 0]], "bool")
    for at in (1 + 1e-6, 1.5, 2.0):
        run = differentiable(NOTHING, lambda alpha: entmax(scores, mask, alpha), mode)
        weights, (by_alpha,), _ = run(np.float32(at))
        np.testing.assert_allclose(weights, [[1, 0], [1, 0], [0.5, 0.5], [0, 0]], atol=1e-6)
        assert by_alpha == pytest.approx(0, abs=1e-5)


def test_precision_and_empty_rows() -> None:
    for function in (sparsemax, entmax, hardmax, lambda x: entmax(x, None, 1.3)):
        for dtype in ("float16", "bfloat16", "float32"):
            weights = function(ops.zeros((2, 1), dtype))
            assert keras.backend.standardize_dtype(weights.dtype) == "float32"
            assert array(weights).tolist() == [[1], [1]]
        for shape in ((2, 0), (0, 3)):
            assert tuple(function(ops.zeros(shape)).shape) == shape
        with double_precision():
            weights = function(ops.zeros((2, 3), "float64"))
            assert keras.backend.standardize_dtype(weights.dtype) == "float64"


@needs_dynamic_shapes
def test_lengths_known_only_at_run_time() -> None:
    def run(x: Any, mask: Any) -> list[Any]:
        alphas = [entmax(x, mask, alpha) for alpha in (1.3, 1.5, 2.0)]
        return [*alphas, hardmax(x, mask), ops.cast(top_k_mask(x, mask, 2), "float32")]

    graph = with_dynamic_shapes(run, (None, None), ((None, None), "bool"))
    for rows, positions in ((2, 5), (1, 1), (3, 40), (2, 0), (0, 4)):
        x = np.random.default_rng(rows).normal(size=(rows, positions)).astype("float32")
        mask = np.ones((rows, positions), "bool")
        for got, expected in zip(graph(x, mask), run(x, mask), strict=True):
            np.testing.assert_allclose(array(got), array(expected), atol=1e-6)


@settings(max_examples=300 if FULL else 50)
@given(
    scores=hnp.arrays("float32", (2, 6), elements=st.sampled_from([-1e5, -1, -0.0, 0, 0.5, 2])),
    mask=hnp.arrays("bool", (2, 6)),
    count=st.integers(1, 8),
)
def test_top_k_mask_selects_the_largest_scores(
    scores: np.ndarray, mask: np.ndarray, count: int
) -> None:
    """Of equal scores the first are selected; fewer than `count` only if fewer are unmasked."""
    selected = array(top_k_mask(scores, mask, count))
    assert selected.sum(-1).tolist() == np.minimum(mask.sum(-1), count).tolist()
    for row in range(2):
        positions = [j for j in range(6) if mask[row, j]]
        best = sorted(positions, key=lambda j: -scores[row, j])[:count]
        assert np.flatnonzero(selected[row]).tolist() == sorted(best)


def test_hardmax_takes_the_first_of_equals_that_is_allowed() -> None:
    scores = np.array([[5, 3, 3], [1, 2, 2], [np.nan, 0, 0]], "float32")
    mask = np.array([[0, 1, 1], [0, 0, 0], [0, 0, 1]], "bool")
    run = differentiable(NOTHING, lambda x: hardmax(x, mask), QUICK)
    weights, (gradient,), _ = run(scores)
    assert weights.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert not gradient.any()


@pytest.mark.parametrize("alpha", ALPHAS[2:])
def test_infinite_scores_give_nan_as_in_softmax(alpha: float) -> None:
    inf = np.inf
    scores = np.array(
        [[0, inf, 1], [inf] * 3, [-inf] * 3, [0, -inf, 0], [0, inf, 0], [-inf, 0, 0]], "float32"
    )
    mask = np.array([[1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 0, 0]], "bool")
    for rows in (slice(4), slice(None)):  # without and with masked positions
        given = None if rows == slice(4) else mask
        weights = array(entmax(scores[rows], given, alpha))
        expected = array(masked_softmax(scores[rows], given))
        is_nan = np.isnan(expected).any(-1)
        assert np.isnan(weights).any(-1).tolist() == is_nan.tolist()
        np.testing.assert_allclose(weights[~is_nan], expected[~is_nan], atol=1e-6)
    assert is_nan.tolist() == [True, True, True, False, False, True]
    assert not weights[~mask].any()
