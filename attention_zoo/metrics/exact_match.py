"""The share of answers that are right to the letter."""

from __future__ import annotations

from collections.abc import Sequence

from attention_zoo.metrics.check import check_same_length, listed


def exact_match(hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """Percent of hypotheses that equal their reference, character for character.

    Args:
        hypotheses: one a text.
        references: one a text, or some, any of which is right.

    Raises:
        ValueError: if the lists are empty or differ in length, or a text has no reference.
    """
    check_same_length(hypotheses=hypotheses, references=references)
    hits = sum(one in right for one, right in zip(hypotheses, listed(references), strict=True))
    return 100.0 * hits / len(references)
