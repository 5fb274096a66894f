"""Scores, alignments, dtypes and modes: pairwise combinations, and all of them in `soak`."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from attention_zoo.layers import (
    ALIGNMENTS,
    EXCLUDED_PAIRS,
    SCORES,
    Attention,
    CoverageScore,
    LocationScore,
)
from tests.layers.attention_case import AttentionCase, S
from tests.layers.attention_conformance import FULLY_MASKED_AXES, check_fully_masked_rows
from tests.layers.running import POLICIES, full_product, label, pairwise

AXES = {
    "score": tuple(SCORES.names()),
    "alignment": tuple(ALIGNMENTS.names()),
    **FULLY_MASKED_AXES,
    "policy": POLICIES,
}


def possible(case: dict[str, Any]) -> bool:
    return (case["score"], case["alignment"]) not in EXCLUDED_PAIRS


def check(score: str, alignment: str, **rest: Any) -> None:
    class Case(AttentionCase):
        covers = Attention
        options: ClassVar = {"alignment": alignment}
        widths = (6, 6, 7)

        def make(self, **options: Any) -> Attention:
            """The score is created here with the dtype of the case."""
            score_layer = LocationScore(max_length=S) if score == "location" else score
            return super().make(score=score_layer, **options)

    check_fully_masked_rows(Case(), **rest)


@pytest.mark.parametrize("case", pairwise(AXES, possible), ids=label)
def test_fully_masked(case: dict[str, Any]) -> None:
    check(**case)


@pytest.mark.soak
@pytest.mark.parametrize("case", full_product(AXES, possible), ids=label)
def test_fully_masked_in_all_combinations(case: dict[str, Any]) -> None:
    check(**case)


def test_pairwise_covers_every_pair() -> None:
    axes = {"a": (1, 2, 3), "b": (4, 5), "c": (6, 7), "d": (8, 9)}
    cases = pairwise(axes)
    for first in axes:
        for second in axes:
            pairs = {(case[first], case[second]) for case in cases}
            expected = len(axes[first]) * (len(axes[second]) if first != second else 1)
            assert len(pairs) == expected
    assert len(cases) < 24 / 2


def test_pairwise_skips_impossible_combinations() -> None:
    axes = {"a": (1, 2), "b": (3, 4), "c": (5, 6)}
    cases = pairwise(axes, lambda case: (case["a"], case["b"]) != (1, 3))
    met = {(case["a"], case["b"]) for case in cases}
    assert met == {(1, 4), (2, 3), (2, 4)}
    assert {(case["a"], case["c"]) for case in cases} == {(1, 5), (1, 6), (2, 5), (2, 6)}


@pytest.mark.parametrize(("score", "alignment"), EXCLUDED_PAIRS)
def test_excluded_pairs_are_rejected(score: str, alignment: str) -> None:
    score_layer = LocationScore(max_length=S) if score == "location" else score
    with pytest.raises(ValueError, match=f"score '{score}' .*, but alignment '{alignment}' att"):
        Attention(score=score_layer, alignment=alignment)


def test_excluded_pairs_follow_from_the_classes() -> None:
    """Three scores need all positions and two alignments score a window; so do subclasses."""
    scores, alignments = ({pair[i] for pair in EXCLUDED_PAIRS} for i in (0, 1))
    assert scores == {"location", "coverage", "location_sensitive"}
    assert alignments == {"local_monotonic", "local_predictive"}
    assert len(EXCLUDED_PAIRS) == 6

    class OwnCoverage(CoverageScore):
        """A stateful score that is not registered."""

    with pytest.raises(
        ValueError, match=r"score 'OwnCoverage' .*, but alignment 'local_monotonic'"
    ):
        Attention(score=OwnCoverage(), alignment="local_monotonic")
