"""Metrics by source length, which show the limits of a fixed-length memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

from attention_zoo.metrics.check import check_same_length

T = TypeVar("T")


@dataclass(frozen=True)
class LengthScore(Generic[T]):
    """A metric over the sentences in a range of lengths.

    Attributes:
        first: minimum length of the range.
        last: maximum length of the range, or None if unlimited.
        size: number of sentences, at least 1.
        value: value of the metric.
    """

    first: int
    last: int | None
    size: int
    value: T


def by_length(
    metric: Callable[[Sequence[str], Sequence[str]], T],
    hypotheses: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    edges: Sequence[int],
) -> list[LengthScore[T]]:
    """Compute a metric for each range of lengths; ranges without sentences are omitted.

    Args:
        metric: `metric(hypotheses, references)`, such as `bleu`.
        hypotheses: one per sentence.
        references: one per sentence.
        lengths: length of each source, in the unit of `edges`.
        edges: maximum length of every range except the last, increasing: `(10, 20)` makes the
            ranges 0 to 10, 11 to 20, and 21 and more.

    Raises:
        ValueError: if the lists are empty or differ in length, or the edges do not increase.
    """
    check_same_length(hypotheses=hypotheses, references=references, lengths=lengths)
    if any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"edges must increase, got {list(edges)}")
    minimums, maximums = [0, *(edge + 1 for edge in edges)], [*edges, None]
    scores = []
    for index, (first, last) in enumerate(zip(minimums, maximums, strict=True)):
        rows = [row for row, length in enumerate(lengths) if bisect_left(edges, length) == index]
        if rows:
            value = metric([hypotheses[row] for row in rows], [references[row] for row in rows])
            scores.append(LengthScore(first, last, len(rows), value))
    return scores
