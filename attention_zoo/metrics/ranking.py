"""Mean average precision and mean reciprocal rank of ranked candidates."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class RankingScores(NamedTuple):
    """Scores of ranked candidates, 0 to 1.

    Attributes:
        mean_average_precision: mean over the groups of the average precision (MAP).
        mean_reciprocal_rank: mean over the groups of 1 / rank of the first relevant candidate
            (MRR).
        groups: number of groups with a relevant candidate, of which these are the means.
        skipped_groups: number of groups without a relevant candidate, which are excluded.
    """

    mean_average_precision: float
    mean_reciprocal_rank: float
    groups: int
    skipped_groups: int


def ranking_scores(
    scores: ArrayLike, relevance: ArrayLike, groups: Sequence[Hashable]
) -> RankingScores:
    """Compute mean average precision and mean reciprocal rank over groups of candidates.

    The candidates of a group are ranked by score, the largest first. The average precision of a
    group is the mean over its R relevant candidates of `r / rank_r`, where `rank_r` is the rank of
    the r-th of them. Candidates with equal scores are ranked in the worst order, those that are not
    relevant first, so that constant scores are not rewarded. Groups without a relevant candidate
    are excluded and counted, as is usual for WikiQA; the other groups may have any number of them.

    Args:
        scores: `(N,)`, the score of each candidate.
        relevance: `(N,)` booleans or 0 and 1, whether it is relevant.
        groups: N names, the question of each candidate; candidates of a group need not be adjacent.

    Returns:
        Both means, 0 to 1, and the numbers of groups with and without a relevant candidate.

    Example:
        >>> from attention_zoo.metrics import ranking_scores
        >>> ranking_scores([0.9, 0.5, 0.1, 0.7, 0.7], [1, 0, 1, 0, 1], ["a", "a", "a", "b", "b"])
        RankingScores(mean_average_precision=0.6666666666666666, mean_reciprocal_rank=0.75, \
groups=2, skipped_groups=0)

    Reference:
        MAP: Manning et al. 2008, "Introduction to information retrieval", section 8.4. MRR:
        Voorhees 1999, "The TREC-8 question answering track report".

    Raises:
        ValueError: if the lists are empty or differ in length, a score is NaN, `relevance` has
            another value than 0 and 1, or no group has a relevant candidate.
    """
    values, relevant = _check_candidates(scores, relevance, groups)
    rows_of: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        rows_of.setdefault(group, []).append(row)
    precisions, reciprocal_ranks = [], []
    for rows in rows_of.values():
        # Sorted by decreasing score; of equal scores, those that are not relevant come first.
        order = np.lexsort((relevant[rows], -values[rows]))
        ranks = 1 + np.flatnonzero(relevant[rows][order])
        if len(ranks):
            precisions.append((np.arange(1, len(ranks) + 1) / ranks).mean())
            reciprocal_ranks.append(1 / ranks[0])
    if not precisions:
        raise ValueError(
            f"no group of candidates has a relevant one, got {len(rows_of)} groups; relevance must"
            " be 1 for at least one candidate"
        )
    return RankingScores(
        float(np.mean(precisions)),
        float(np.mean(reciprocal_ranks)),
        len(precisions),
        len(rows_of) - len(precisions),
    )


def _check_candidates(
    scores: ArrayLike, relevance: ArrayLike, groups: Sequence[Hashable]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return scores and relevance as arrays; raise ValueError if they are invalid."""
    values, relevant = np.asarray(scores, np.float64), np.asarray(relevance)
    if not values.size or not values.shape == relevant.shape == (len(groups),):
        raise ValueError(
            "expected a score, a relevance and a group for each of at least one candidate, got"
            f" shapes {values.shape} and {relevant.shape}, and {len(groups)} groups"
        )
    if np.isnan(values).any():
        raise ValueError(f"scores must be numbers, got NaN at index {np.isnan(values).argmax()}")
    if not np.isin(relevant, (0, 1)).all():
        wrong = relevant[~np.isin(relevant, (0, 1))][0]
        raise ValueError(f"relevance must be 0 or 1, got {wrong}")
    return values, relevant.astype(bool)
