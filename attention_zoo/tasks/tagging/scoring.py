"""Metrics of predicted tags against reference tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from attention_zoo.metrics import span_scores, tag_accuracy

Tags = Sequence[Sequence[str]]


def score_tags(predicted: Tags, references: Tags, scheme: str | None) -> dict[str, Any]:
    """Compute tag accuracy and, with a tag scheme, F1 of spans.

    Returns:
        `accuracy` (0 to 100, of words); with a scheme `f1`, `precision` and `recall` of spans (0 to
        100), `invalid` (sentences whose predicted tags break the scheme) and `by_label`.
    """
    report: dict[str, Any] = {"accuracy": tag_accuracy(predicted, references)}
    if scheme is not None:
        scores = span_scores(predicted, references, scheme)
        report |= {"f1": scores.f1, "precision": scores.precision, "recall": scores.recall}
        report["invalid"] = scores.invalid
        by_label = scores.by_label.items()
        report["by_label"] = [{"label": label, **asdict(score)} for label, score in by_label]
    return report
