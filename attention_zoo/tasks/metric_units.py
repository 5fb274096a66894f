"""Units of the built-in tasks' metrics."""

from __future__ import annotations

_PERCENTAGES = (
    *("accuracy", "error", "exact_match", "masked_accuracy", "f1", "precision", "recall"),
    *(f"{kind}_{name}" for kind in ("macro", "micro") for name in ("f1", "precision", "recall")),
    "expected_calibration_error",
    *("facts", "facts_precision", "facts_recall", "copied_share", "copied_tokens"),
    *("repeated_3grams", "reference_repeated_3grams"),
    *(f"{side}_recall{k}" for side in ("image", "text") for k in (1, 5, 10)),
)
METRIC_UNITS: dict[str, str] = {
    **dict.fromkeys(_PERCENTAGES, "%"),
    "invalid": "sentences with an invalid tag sequence",
    "truncated": "outputs without an end token",
    "sources_truncated": "truncated sources",
    "unknown": "tokens outside the vocabulary",
}
"""Units of the built-in tasks' metrics; metrics that are missing here have no unit."""
