"""Any metric, by the length of what was read: where a fixed-length memory shows."""

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
    """A metric over the sentences of some lengths.

    Attributes:
        first: the shortest length that counts.
        last: the longest, or None where there is no limit.
        size: how many sentences there were, at least 1.
        value: what the metric gave for them.
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
    """The metric for each range of lengths; ranges without a sentence are left out.

    Args:
        metric: `metric(hypotheses, references)`, such as `bleu`.
        hypotheses: one a sentence.
        references: one a sentence.
        lengths: of each source, in whatever unit the edges are.
        edges: the last length of every range but the last, rising: `(10, 20)` makes the ranges
            0 to 10, 11 to 20, and 21 and more.

    Raises:
        ValueError: if the lists are empty or differ in length, or the edges do not rise.
    """
    check_same_length(hypotheses=hypotheses, references=references, lengths=lengths)
    if any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"edges are {list(edges)}: each must be greater than the one before")
    ranges: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    for row, length in enumerate(lengths):
        ranges[bisect_left(edges, length)].append(row)
    firsts, lasts = [0, *(edge + 1 for edge in edges)], [*edges, None]
    return [
        LengthScore(
            first,
            last,
            len(rows),
            metric([hypotheses[row] for row in rows], [references[row] for row in rows]),
        )
        for first, last, rows in zip(firsts, lasts, ranges, strict=True)
        if rows
    ]
