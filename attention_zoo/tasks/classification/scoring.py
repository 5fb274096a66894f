"""Metrics of predicted classes against reference classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.metrics import class_scores, expected_calibration_error, multi_label_scores
from attention_zoo.tasks.classification.result import THRESHOLD


def score_classes(
    log_probabilities: NDArray[Any], labels: Sequence[Sequence[int]], classes: Sequence[str]
) -> dict[str, Any]:
    """Compute the metrics of one class per text, or of any number of classes.

    Args:
        log_probabilities: those of a `ClassifierInference`, `(N, K)` or `(N, K, 2)`.
        labels: class indices of each text.
        classes: names of the classes.

    Returns:
        With one class per text `accuracy`, `macro_f1`, `macro_precision`, `macro_recall`,
        `expected_calibration_error` (all 0 to 100), `by_class`, and `confusion`: for each reference
        class the number of texts by predicted class. With any number of classes `exact_match`,
        `macro_f1`, `micro_f1` and the like, `expected_calibration_error` (of all decisions) and
        `by_class`.
    """
    probabilities = np.exp(log_probabilities)
    references = [[classes[index] for index in indices] for indices in labels]
    if log_probabilities.ndim == 3:
        return _score_sets(probabilities[..., 1], references, classes)
    best = probabilities.argmax(axis=1)
    predicted = [classes[index] for index in best]
    one_reference = [names[0] for names in references]
    scores = class_scores(predicted, one_reference, classes)
    is_correct = np.array(predicted) == np.array(one_reference)
    error = expected_calibration_error(probabilities.max(axis=1), is_correct)
    return {
        "accuracy": scores.accuracy,
        "macro_f1": scores.macro_f1,
        "macro_precision": scores.macro_precision,
        "macro_recall": scores.macro_recall,
        "expected_calibration_error": error,
        "by_class": _list_classes(scores.by_class),
        "confusion": [
            {"reference": name, "predicted": dict(zip(classes, row.tolist(), strict=True))}
            for name, row in zip(classes, scores.confusion, strict=True)
        ],
    }


def _score_sets(
    probabilities: NDArray[Any], references: Sequence[list[str]], classes: Sequence[str]
) -> dict[str, Any]:
    """Compute the metrics of any number of classes per text, from probabilities `(N, K)`."""
    chosen = probabilities >= THRESHOLD
    predicted = [[classes[int(index)] for index in np.flatnonzero(row)] for row in chosen]
    scores = multi_label_scores(predicted, references, classes)
    is_present = np.array([[name in names for name in classes] for names in references])
    confidence = np.where(chosen, probabilities, 1 - probabilities)
    error = expected_calibration_error(confidence.ravel(), (chosen == is_present).ravel())
    names = [
        f"{kind}_{name}" for kind in ("macro", "micro") for name in ("f1", "precision", "recall")
    ]
    return {
        "exact_match": scores.exact_match,
        **{name: getattr(scores, name) for name in names},
        "expected_calibration_error": error,
        "by_class": _list_classes(scores.by_class),
    }


def _list_classes(by_class: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"label": name, **asdict(score)} for name, score in by_class.items()]
