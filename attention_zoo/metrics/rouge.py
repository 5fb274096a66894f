"""ROUGE as computed by rouge-score, with bootstrap confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attention_zoo.extras import explain_missing_package
from attention_zoo.metrics.check import as_reference_lists, check_same_length

ROUGE_KINDS = ("rouge1", "rouge2", "rougeL")
PERCENTILES = (2.5, 97.5)  # percentiles that limit the interval


class Rouge(NamedTuple):
    """A mean F score, 0 to 100, and its 95 % confidence interval.

    Attributes:
        score: mean over texts.
        low, high: limits of the interval, by the percentile bootstrap over texts (Efron 1979).
    """

    score: float
    low: float
    high: float


def rouge(
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]],
    *,
    stem: bool = True,
    samples: int = 1000,
    seed: int = 1,
) -> dict[str, Rouge]:
    """Compute ROUGE-1, ROUGE-2 and ROUGE-L of summaries: "rouge1", "rouge2" and "rougeL".

    `F = 2 P R / (P + R)` of the n-grams, or of the longest common subsequence, of summary and
    reference. Words are runs of a to z and 0 to 9 in lower case; other alphabets are ignored.

    Args:
        hypotheses: one per text.
        references: one or several per text; the best one counts, separately for each kind of ROUGE.
        stem: compare longer words by their stems (Porter 1980), as in papers on summarization.
        samples: number of bootstrap samples for the intervals.
        seed: of the bootstrap; it is independent of all other random state.

    Reference:
        Lin 2004, "ROUGE: a package for automatic evaluation of summaries".

    Raises:
        ValueError: if the lists are empty or differ in length, a text has no reference, or
            `samples` is below 1.
    """
    with explain_missing_package():
        from rouge_score.rouge_scorer import RougeScorer

    check_same_length(hypotheses=hypotheses, references=references)
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    scorer = RougeScorer(list(ROUGE_KINDS), use_stemmer=stem)
    results = map(scorer.score_multi, as_reference_lists(references), hypotheses)
    scores = 100 * np.array([[result[kind].fmeasure for kind in ROUGE_KINDS] for result in results])
    low, high = _compute_interval(scores, samples, seed)
    columns = zip(ROUGE_KINDS, scores.mean(axis=0), low, high, strict=True)
    return {kind: Rouge(*map(float, values)) for kind, *values in columns}


def _compute_interval(scores: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """Return the two percentiles of the means of `samples` corpora resampled from these texts."""
    rng = np.random.default_rng(seed)
    size = len(scores)
    means = [scores[rng.integers(size, size=size)].mean(axis=0) for _ in range(samples)]
    return np.percentile(means, PERCENTILES, axis=0)
