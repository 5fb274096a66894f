"""Exact match."""

from __future__ import annotations

from collections.abc import Sequence

from attention_zoo.metrics.check import check_same_length, listed


def exact_match(hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """Compute the percentage of hypotheses that equal a reference, character for character.

    Args:
        hypotheses: one per text.
        references: one or several per text; any of them may match.

    Raises:
        ValueError: if the lists are empty or differ in length, or a text has no reference.
    """
    check_same_length(hypotheses=hypotheses, references=references)
    hits = sum(one in right for one, right in zip(hypotheses, listed(references), strict=True))
    return 100.0 * hits / len(references)
