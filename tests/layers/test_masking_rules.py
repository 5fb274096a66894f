"""A mechanism that fails in half precision learns which rule it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import Alignment, Attention, Score
from tests.layers.attention_conformance import AttentionConformance, check_fully_masked_rows
from tests.layers.masking_rules import RULES, masking_rule
from tests.layers.part_conformance import AlignmentConformance, ScoreConformance


class HalfScore(Score):
    """A dot product in the dtype of the query, which overflows in float16."""

    def compute_scores(self, query: Any, keys: Any) -> Any:
        return ops.matmul(query, ops.swapaxes(keys, -1, -2))


class MixedScore(Score):
    """A score of two dtypes that TensorFlow does not mix."""

    def compute_scores(self, query: Any, keys: Any) -> Any:
        raise TypeError("float16 and float32")


class AddedMask(Alignment):
    """A softmax that adds a number to masked scores, and nothing in a fully masked row is 0."""

    def call(self, scores: Any, mask: Any = None, state: Any = (), training: bool = False) -> Any:
        if mask is not None:
            scores = scores - 1e4 * ops.cast(ops.logical_not(mask), scores.dtype)
        return ops.softmax(scores), state


class OfScore(ScoreConformance):
    covers = HalfScore
    widths = (6, 6)


class OfMixedScore(OfScore):
    covers = MixedScore


class OfAlignment(AlignmentConformance):
    covers = AddedMask


class OfAttention(AttentionConformance):
    covers = Attention
    widths = (6, 6, 7)
    options = {"score": "dot", "alignment": AddedMask()}


FAILURES: dict[str, tuple[int, Callable[[], None]]] = {
    "dtype": (4, OfScore().test_other_precisions_compute_in_float32),
    "overflow": (4, OfScore().test_large_inputs_do_not_overflow),
    "mixed dtypes": (4, OfMixedScore().test_large_inputs_do_not_overflow),
    "alignment": (4, OfAlignment().test_other_precisions_compute_in_float32),
    "masked": (3, lambda: OfAlignment().test_masked_positions_have_zero_weight("float16")),
    "masked in a layer": (
        3,
        lambda: OfAttention().test_masked_positions_have_zero_weight_at_large_scores("float16"),
    ),
    "fully masked": (
        4,
        lambda: check_fully_masked_rows(OfAttention(), "mixed_float16", "eager", True, 0.0),
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failure_in_half_precision_names_the_rule(name: str) -> None:
    number, fails = FAILURES[name]
    with pytest.raises(Exception) as caught:
        fails()
    assert caught.value.__notes__ == [f"Masking rule {number}: {RULES[number]}"]


def test_rule_is_part_of_the_report() -> None:
    with pytest.raises(AssertionError) as caught, masking_rule(4):
        np.testing.assert_equal(1, 2)
    assert "Masking rule 4: a fully masked row" in caught.exconly()
