"""Percentages of counts, shared by the metrics."""

from __future__ import annotations


def compute_percentage(part: float, whole: float) -> float:
    """Return a part in percent; 0 if the whole is 0."""
    return 100.0 * part / whole if whole else 0.0


def compute_f1(correct: int, predicted: int, expected: int) -> tuple[float, float, float]:
    """Return precision, recall and F1 in percent; each is 0 if its denominator is 0."""
    precision, recall = (
        compute_percentage(correct, predicted),
        compute_percentage(correct, expected),
    )
    return precision, recall, compute_percentage(2 * correct, predicted + expected)
