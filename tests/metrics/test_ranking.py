"""Mean average precision and reciprocal rank of small rankings, computed by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from attention_zoo.metrics import RankingScores, ranking_scores
from tests.refusals import refuses


def test_scores_equal_hand_computed_values() -> None:
    """Ranks of the relevant ones: a: 1 and 3; b: 2; c: none; d: 1.

    Average precision: a: (1 + 2/3) / 2; b: 1/2; d: 1.
    """
    scores = [0.3, 9.0, -1.0, 0.5, 0.2, 0.1, 0.9, 0.8, 0.4]
    relevance = [1, 0, 1, 1, 0, 1, 0, 0, 0]
    groups = ["a", "b", "d", "b", "a", "a", "c", "c", "b"]
    average = ((1 + 2 / 3) / 2 + 1 / 2 + 1) / 3
    reciprocal = (1 + 1 / 2 + 1) / 3
    result = ranking_scores(scores, relevance, groups)
    assert result == RankingScores(pytest.approx(average), pytest.approx(reciprocal), 3, 1)


@pytest.mark.parametrize("relevance", sorted(set(permutations([1, 1, 0, 0, 0]))))
def test_ties_rank_relevant_candidates_last(relevance: tuple[int, ...]) -> None:
    result = ranking_scores(np.zeros(5), relevance, [7] * 5)
    assert result.mean_reciprocal_rank == pytest.approx(1 / 4)
    assert result.mean_average_precision == pytest.approx((1 / 4 + 2 / 5) / 2)


def test_ties_affect_their_own_ranks_only() -> None:
    """The ranks are 1 (relevant), then 2 and 3 (tied, the second relevant), then 4."""
    for second, third in (([1, 0]), ([0, 1])):
        result = ranking_scores([3, 2, 2, 1], [1, second, third, 0], "aaaa")
        assert result[:2] == (pytest.approx((1 + 2 / 3) / 2), 1.0)


def test_average_precision_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    scores = rng.permutation(600).astype(float)
    relevance, groups = rng.random(600) < 0.2, rng.integers(60, size=600)
    precisions, reciprocals, skipped = [], [], 0
    for group in range(60):
        rows = sorted(np.flatnonzero(groups == group), key=lambda row: -scores[row])
        found = [rank for rank, row in enumerate(rows, 1) if relevance[row]]
        if found:
            precisions.append(np.mean([n / rank for n, rank in enumerate(found, 1)]))
            reciprocals.append(1 / found[0])
        elif rows:
            skipped += 1
    assert skipped > 1
    result = ranking_scores(scores, relevance, groups.tolist())
    expected = float(np.mean(precisions)), float(np.mean(reciprocals)), len(precisions), skipped
    assert result == RankingScores(*map(pytest.approx, expected))


def test_perfect_and_infinite_scores() -> None:
    assert ranking_scores([2, 1], [True, False], "aa") == RankingScores(1.0, 1.0, 1, 0)
    assert ranking_scores([-np.inf, np.inf], [0, 1], "aa")[:2] == (1.0, 1.0)
    assert ranking_scores([0.0], [1.0], ["a"])[:2] == (1.0, 1.0)


@refuses(
    ([], [], [], r"at least one candidate, got shapes \(0,\) and \(0,\), and 0 groups"),
    ([1.0, 2.0], [1], ["a", "a"], r"got shapes \(2,\) and \(1,\), and 2 groups"),
    ([1.0, 2.0], [1, 0], ["a"], r"got shapes \(2,\) and \(2,\), and 1 groups"),
    ([[1.0]], [[1]], ["a"], r"got shapes \(1, 1\) and \(1, 1\), and 1 groups"),
    ([1.0, np.nan], [1, 0], ["a", "a"], "scores must be numbers, got NaN at index 1"),
    ([1.0, 2.0], [1, 0.5], ["a", "a"], "relevance must be 0 or 1, got 0.5"),
    ([1.0, 2.0], [0, 0], ["a", "b"], "no group of candidates has a relevant one, got 2 groups"),
)
def test_invalid_arguments_raise(scores: list, relevance: list, groups: list) -> None:
    ranking_scores(scores, relevance, groups)
