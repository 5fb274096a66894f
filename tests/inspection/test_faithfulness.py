"""Deletion and insertion curves worked by hand, and Kendall's tau against SciPy."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attention_zoo.inspection import faithfulness
from attention_zoo.inspection.faithfulness import kendall_tau, perturbation_curves, random_scores

VALUES = np.array([0, 0, 3, 1, 2, 4], "float64")
"""Value of each token id; padding and the unknown token have none."""
TOKENS = np.array([[2, 3, 4, 5], [5, 2, 0, 0]])
SCORES = np.array([[3.0, 1.0, 2.0, 4.0], [0.1, 0.2, 9.0, 9.0]])


def predict(tokens: NDArray[Any]) -> NDArray[Any]:
    """Sum of the values of the tokens."""
    return VALUES[tokens].sum(axis=1)


def curves(scores: Any = SCORES, **options: Any) -> faithfulness.PerturbationCurves:
    options = {"fractions": (0, 0.5, 1), **options}
    return perturbation_curves(predict, TOKENS, {"scores": scores}, **options)["scores"]


def test_curves_by_hand() -> None:
    result = curves()
    np.testing.assert_allclose(result.deletion, [[10, 3, 0], [7, 4, 0]])
    np.testing.assert_allclose(result.insertion, [[0, 7, 10], [0, 3, 7]])
    np.testing.assert_allclose(result.deletion_area, [(10 + 3) / 4 + 3 / 4, (7 + 4) / 4 + 4 / 4])
    np.testing.assert_allclose(result.insertion_area, [7 / 4 + 17 / 4, 3 / 4 + 10 / 4])
    np.testing.assert_array_equal(result.fractions, [0, 0.5, 1])


def test_comprehensiveness_and_sufficiency_by_hand() -> None:
    """Of four tokens, the bins have 1, 1, 1, 1 and 2 tokens; of two tokens, 1 each."""
    result = curves()
    np.testing.assert_allclose(result.comprehensiveness, [(4 * 4 + 7) / 5, 3])
    np.testing.assert_allclose(result.sufficiency, [(4 * 6 + 3) / 5, 4])


def test_number_of_tokens_is_rounded_up() -> None:
    tokens, scores = np.full((1, 10), 3), np.arange(10.0)[None]
    result = perturbation_curves(predict, tokens, {"a": scores}, fractions=(0, 0.1, 0.3, 0.31, 1))
    np.testing.assert_allclose(result["a"].deletion, [[10, 9, 7, 6, 0]])


def test_padding_and_masked_tokens_are_never_deleted() -> None:
    seen = []

    def record(tokens: NDArray[Any]) -> NDArray[Any]:
        seen.append(tokens)
        return predict(tokens)

    mask = np.array([[True, True, True, False], [True] * 4])
    perturbation_curves(record, TOKENS, {"a": SCORES}, mask)
    for tokens in seen:
        assert tokens[0, 3] == 5
        np.testing.assert_array_equal(tokens[1, 2:], 0)
    assert any((tokens[0, :3] == 1).all() for tokens in seen)
    assert any((tokens[1, :2] == 1).all() for tokens in seen)


def test_scores_of_padding_are_ignored() -> None:
    scores = np.where(TOKENS == 0, np.nan, SCORES)
    np.testing.assert_array_equal(curves(scores).deletion, curves().deletion)


def test_ties_are_broken_by_position() -> None:
    result = curves(np.zeros((2, 4)), fractions=(0, 0.25, 0.5, 0.75, 1))
    np.testing.assert_allclose(result.deletion[0], [10, 7, 6, 4, 0])
    np.testing.assert_allclose(result.insertion[0], [0, 3, 4, 6, 10])


def test_tokens_are_removed() -> None:
    seen = []

    def record(tokens: NDArray[Any]) -> NDArray[Any]:
        seen.append(tokens.tolist())
        return predict(tokens)

    options: dict[str, Any] = {"fractions": (0, 1), "bins": (0.5,), "replacement": "remove"}
    perturbation_curves(record, TOKENS, {"a": SCORES}, **options)
    assert seen[0] == TOKENS.tolist()
    assert [[3, 4, 0, 0], [5, 0, 0, 0]] in seen
    assert [[2, 5, 0, 0], [2, 0, 0, 0]] in seen


def test_the_best_order_has_the_best_areas() -> None:
    result = perturbation_curves(
        predict, TOKENS, {"best": VALUES[TOKENS], "random": random_scores(TOKENS.shape, seed=3)}
    )
    best, random = result["best"], result["random"]
    assert (best.deletion_area <= random.deletion_area).all()
    assert (best.insertion_area >= random.insertion_area).all()
    assert best.deletion_area[0] < random.deletion_area[0]


def test_random_scores_are_reproducible() -> None:
    np.testing.assert_array_equal(random_scores((2, 3), 1), random_scores((2, 3), 1))
    assert (random_scores((2, 3), 1) != random_scores((2, 3), 2)).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": TOKENS[0]}, r"tokens must be integers \(B, T\).*got int64 of shape \(4,\)"),
        ({"scores": SCORES}, "scores must be a dict"),
        ({"scores": {"a": SCORES[:1]}}, r"scores of 'a' must have .*\(2, 4\), got \(1, 4\)"),
        ({"scores": {"a": SCORES * np.nan}}, "scores of 'a' must be finite"),
        ({"mask": [[True]]}, r"mask must be boolean of shape \(2, 4\), got bool of shape \(1, 1\)"),
        ({"fractions": (0.5, 0.1)}, r"fractions must increase within 0\.\.1, got \[0\.5, 0\.1\]"),
        ({"fractions": (0.1, 1)}, "fractions must begin with 0 and end with 1"),
        ({"bins": (0.5, 1.5)}, r"bins must increase within 0\.\.1"),
        ({"replacement": "drop"}, "replacement, unless it is .* must be an integer .*got 'drop'"),
        ({"predict": lambda tokens: tokens}, r"predict must return .*\(2,\), got shape \(2, 4\)"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    arguments = {"predict": predict, "tokens": TOKENS, "scores": {"a": SCORES}, **options}
    with pytest.raises(ValueError, match=message):
        perturbation_curves(**arguments)


def test_tau_by_hand() -> None:
    """Five concordant pairs and one discordant pair: (5 - 1) / 6."""
    assert kendall_tau([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    # P = 4, Q = 1, one pair tied in a
    assert kendall_tau([1, 1, 2, 3], [1, 2, 4, 3]) == pytest.approx(3 / np.sqrt(5 * 6))
    assert kendall_tau([1, 2], [3, 0]) == -1


def test_tau_equals_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(0)
    a, b = random.integers(0, 6, (5, 12)), random.integers(0, 4, (5, 12))
    mask = random.random((5, 12)) > 0.2
    expected = [stats.kendalltau(x[m], y[m]).statistic for x, y, m in zip(a, b, mask, strict=True)]
    np.testing.assert_allclose(kendall_tau(a, b, mask), expected, atol=1e-12)


def test_tau_of_constant_scores_is_nan() -> None:
    actual = kendall_tau(
        [[1, 1, 1], [1, 2, 3], [1, 2, 3]], [[1, 2, 3]] * 3, [[1] * 3] * 2 + [[1, 0, 0]]
    )
    np.testing.assert_array_equal(np.isnan(actual), [True, False, True])


def test_tau_of_bad_input() -> None:
    with pytest.raises(ValueError, match=r"a and b must have one shape .*\(2,\) and \(3,\)"):
        kendall_tau([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="must not contain NaN"):
        kendall_tau([1, np.nan], [1, 2])


def test_examples() -> None:
    result = doctest.testmod(faithfulness)
    assert result.attempted > 5
    assert result.failed == 0
