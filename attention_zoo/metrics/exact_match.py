"""The share of answers that are right to the letter."""

from __future__ import annotations

from collections.abc import Sequence

from attention_zoo.metrics.check import check_same_length


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Percent of hypotheses that equal their reference, character for character.

    Raises:
        ValueError: if the lists are empty or differ in length.
    """
    check_same_length(hypotheses=hypotheses, references=references)
    hits = sum(one == other for one, other in zip(hypotheses, references, strict=True))
    return 100.0 * hits / len(references)
