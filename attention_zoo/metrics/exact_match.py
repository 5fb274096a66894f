"""Exact match."""

from __future__ import annotations

from collections.abc import Sequence

from attention_zoo.metrics.check import as_reference_lists, check_same_length


def exact_match(hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """Compute the percentage of hypotheses that equal a reference, character for character.

    Args:
        hypotheses: one per text.
        references: one or several per text; any of them may match.

    Raises:
        ValueError: if the lists are empty or differ in length, or a text has no reference.
    """
    check_same_length(hypotheses=hypotheses, references=references)
    pairs = zip(hypotheses, as_reference_lists(references), strict=True)
    hits = sum(hypothesis in text_references for hypothesis, text_references in pairs)
    return 100.0 * hits / len(references)
