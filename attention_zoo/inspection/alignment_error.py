"""Alignment error rate: word alignments from attention weights against gold alignments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attention_zoo.ops.arguments import finite_number, format_value, whole_number


class AlignmentScores(NamedTuple):
    """Alignment error rate, precision and recall of a corpus.

    Attributes:
        aer: alignment error rate, 0 to 1, lower is better.
        precision: share of the links that are possible; 0 without links.
        recall: share of the sure links that are found.
    """

    aer: float
    precision: float
    recall: float


def alignment_error_rate(
    alignments: Sequence[Iterable[tuple[int, int]]],
    sure: Sequence[Iterable[tuple[int, int]]],
    possible: Sequence[Iterable[tuple[int, int]]] | None = None,
    lengths: Sequence[tuple[int, int]] | None = None,
) -> AlignmentScores:
    """Alignment error rate (AER) of a corpus.

    `AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)`, `precision = |A & P| / |A|`,
    `recall = |A & S| / |S|`, where the numbers of links are summed over all sentences.

    Args:
        alignments: A, for each sentence its links: pairs (target position, source position), from
            0, as `links_from_weights` returns them. Repeated links count once.
        sure: S, the unambiguous gold links of each sentence.
        possible: P, the gold links of each sentence that are not wrong. Sure links are possible,
            whether they are listed or not. If None, P is S.
        lengths: (T, S), number of target and source tokens of each sentence, to check the links.

    Returns:
        `AlignmentScores`.

    Raises:
        ValueError: the arguments have different numbers of sentences, a link is no pair of integers
            of at least 0 or is out of range, or there is no sure link.

    Example:
        >>> from attention_zoo.inspection.alignment_error import alignment_error_rate
        >>> sure, possible = [{(0, 0), (1, 1)}], [{(2, 1)}]
        >>> alignment_error_rate([{(0, 0), (2, 1), (2, 2)}], sure, possible)
        AlignmentScores(aer=0.4, precision=0.6666666666666666, recall=0.5)

    Reference:
        Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models",
        section 5 (Computational Linguistics 29.1).
    """
    others = {"sure": sure, "possible": possible, "lengths": lengths}
    for name, other in others.items():
        if other is not None and len(other) != len(alignments):
            raise ValueError(
                f"alignments and {name} must have one entry per sentence, got {len(alignments)} and"
                f" {len(other)}"
            )
    num_links = num_sure = num_found_sure = num_found_possible = 0
    for index, (links, sure_links) in enumerate(zip(alignments, sure, strict=True)):
        length = None if lengths is None else lengths[index]
        found = _check_links("alignments", links, index, length)
        gold = _check_links("sure", sure_links, index, length)
        permitted = gold
        if possible is not None:
            permitted = gold | _check_links("possible", possible[index], index, length)
        num_links, num_sure = num_links + len(found), num_sure + len(gold)
        num_found_sure += len(found & gold)
        num_found_possible += len(found & permitted)
    if not num_sure:
        raise ValueError("sure must have at least one link, got none in any sentence")
    return AlignmentScores(
        1 - (num_found_sure + num_found_possible) / (num_links + num_sure),
        num_found_possible / num_links if num_links else 0.0,
        num_found_sure / num_sure,
    )


def links_from_weights(weights: ArrayLike, threshold: float | None = None) -> set[tuple[int, int]]:
    """Return the alignment links of a sentence, from its attention weights.

    `{(t, argmax_s weights_ts)}`, or `{(t, s) : weights_ts > threshold}`.

    Args:
        weights: `(T, S)`, target tokens by source tokens.
        threshold: if None, each target token is linked to its source token of maximum weight, the
            first of several; a row of zeros has no link. Otherwise, all pairs above the threshold
            are linked.

    Returns:
        Pairs (target position, source position).

    Raises:
        ValueError: weights are not `(T, S)` or not finite, or the threshold is not finite.

    Example:
        >>> from attention_zoo.inspection.alignment_error import links_from_weights
        >>> sorted(links_from_weights([[0.6, 0.4, 0.0], [0.1, 0.2, 0.7]]))
        [(0, 0), (1, 2)]
        >>> sorted(links_from_weights([[0.6, 0.4, 0.0], [0.1, 0.2, 0.7]], threshold=0.3))
        [(0, 0), (0, 1), (1, 2)]

    Reference: this library.
    """
    array = np.asarray(weights, "float64")
    if array.ndim != 2:
        raise ValueError(f"weights must be (T, S) of one sentence, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("weights must be finite, got NaN or infinity")
    if threshold is not None:
        return {
            (int(t), int(s)) for t, s in np.argwhere(array > finite_number("threshold", threshold))
        }
    rows = np.flatnonzero(array.any(-1))
    return {(int(row), int(array[row].argmax())) for row in rows}


def find_word_ids(
    offsets: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]
) -> list[int | None]:
    """Return the index of the word to which each token belongs, by their character offsets.

    Args:
        offsets: start and end of each token in the text, in characters, end exclusive, as the
            tokenizer's `offsets` returns them.
        words: start and end of each word, in the order of the text.

    Returns:
        For each token, the index of the first word with which it shares a character; None if there
        is none, as for white space and special tokens.

    Raises:
        ValueError: an entry is not a pair of non-negative integers, a start is after its end, or
            words are empty, overlap or are not in order.

    Example:
        >>> from attention_zoo.inspection.alignment_error import find_word_ids
        >>> find_word_ids([(0, 0), (0, 4), (4, 7), (8, 10)], [(0, 7), (8, 10)])  # "walking on"
        [None, 0, 0, 1]

    Reference: this library.
    """
    spans, parts = _check_spans("words", words), _check_spans("offsets", offsets)
    if any(start == end for start, end in spans):
        raise ValueError("words must not be empty, but a word has equal start and end")
    for number, ((_, end), (start, _)) in enumerate(pairwise(spans)):
        if start < end:
            raise ValueError(
                f"words must be in order and not overlap, but word {number + 1} starts at {start},"
                f" before the end of word {number}, {end}"
            )
    ids: list[int | None] = []
    for start, end in parts:
        word = bisect_right(spans, start, key=lambda span: span[1])
        ids.append(
            word
            if word < len(spans) and max(start, spans[word][0]) < min(end, spans[word][1])
            else None
        )
    return ids


def _check_spans(name: str, spans: Sequence[Any]) -> list[tuple[int, int]]:
    """Return spans as pairs of integers; raise ValueError if one is invalid."""
    checked = []
    for number, span in enumerate(spans):
        try:
            start, end = (whole_number("position", position, 0) for position in span)
            valid = start <= end
        except (TypeError, ValueError):
            valid = False
        if not valid:
            raise ValueError(
                f"{name}: entry {number} must be (start, end) with 0 <= start <= end, got"
                f" {format_value(span)}"
            )
        checked.append((start, end))
    return checked


def _check_links(
    name: str, links: Iterable[Any], sentence: int, lengths: tuple[int, int] | None
) -> set[tuple[int, int]]:
    """Return the links of a sentence; raise ValueError if one is invalid or out of range."""
    checked = set()
    for link in links:
        place = f"{name}, sentence {sentence}: link {format_value(link)}"
        try:
            target, source = link
            target, source = whole_number("target", target, 0), whole_number("source", source, 0)
        except (TypeError, ValueError):
            raise ValueError(
                f"{place} must be a pair (target position, source position) of integers from 0"
            ) from None
        if lengths is not None and (target >= lengths[0] or source >= lengths[1]):
            raise ValueError(
                f"{place} is out of range for {lengths[0]} target tokens and {lengths[1]} source"
                " tokens; positions count from 0"
            )
        checked.add((target, source))
    return checked
