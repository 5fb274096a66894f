"""Scores times alignments times dtypes times paths: a pairwise cover, and everything in `soak`."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from attention_zoo.layers import ALIGNMENTS, SCORES, Attention
from tests.layers.attention_case import AttentionCase
from tests.layers.attention_laws import DEAD_AXES, check_dead_rows
from tests.layers.running import POLICIES, full_product, label, pairwise

AXES = {
    "score": tuple(SCORES.names()),
    "alignment": tuple(ALIGNMENTS.names()),
    **DEAD_AXES,
    "policy": POLICIES,
}


def check(score: str, alignment: str, **rest: Any) -> None:
    class Case(AttentionCase):
        covers = Attention
        options: ClassVar = {"score": score, "alignment": alignment}
        widths = (6, 6, 7)

    check_dead_rows(Case(), **rest)


@pytest.mark.parametrize("case", pairwise(AXES), ids=label)
def test_nothing_to_attend(case: dict[str, Any]) -> None:
    check(**case)


@pytest.mark.soak
@pytest.mark.parametrize("case", full_product(AXES), ids=label)
def test_nothing_to_attend_in_all_combinations(case: dict[str, Any]) -> None:
    check(**case)


def test_pairwise_covers_every_pair() -> None:
    axes = {"a": (1, 2, 3), "b": (4, 5), "c": (6, 7), "d": (8, 9)}
    cases = pairwise(axes)
    for first in axes:
        for second in axes:
            pairs = {(case[first], case[second]) for case in cases}
            wanted = len(axes[first]) * (len(axes[second]) if first != second else 1)
            assert len(pairs) == wanted
    assert len(cases) < 24 / 2
