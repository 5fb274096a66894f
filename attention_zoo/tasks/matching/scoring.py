"""Metrics of matched pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data import LabelledPairs
from attention_zoo.metrics import pearson_correlation, ranking_scores, spearman_correlation
from attention_zoo.tasks.classification.scoring import score_classes
from attention_zoo.tasks.matching.building import index_labels


def score_matches(
    outputs: NDArray[Any], pairs: LabelledPairs, target: str, classes: Sequence[str]
) -> dict[str, Any]:
    """Compute the metrics of a target.

    Args:
        outputs: those of a `MatcherInference`, `(N, K)` or `(N, 1)`; scores on the original scale.
        pairs: the pairs with their references.
        target: "classification", "regression" or "ranking".
        classes: names of the classes.

    Returns:
        With target "classification", the metrics of `score_classes`. With "regression" `pearson`,
        `spearman` and `mean_squared_error`. With "ranking" `mean_average_precision`,
        `mean_reciprocal_rank` (0 to 1), `groups` and `skipped_groups` (those without a relevant
        candidate).
    """
    if target == "classification":
        return score_classes(outputs, index_labels(pairs, classes)[:, None].tolist(), classes)
    values, references = outputs[:, 0].astype(np.float64), np.asarray(pairs.scores, np.float64)
    try:
        if target == "ranking":
            return ranking_scores(values, references, pairs.groups or ())._asdict()
        return {
            "pearson": pearson_correlation(values, references),
            "spearman": spearman_correlation(values, references),
            "mean_squared_error": float(np.mean((values - references) ** 2)),
        }
    except ValueError as error:
        raise ValueError(f"{pairs.origin}: {error}") from None
