"""Checked parts of a classified text for its plots and pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Spans = Sequence[tuple[int, int]]


class WeightedSpan(NamedTuple):
    """A visible token, or tokens whose spans overlap.

    Attributes:
        start, end: character span in the source.
        weight: attention weight of the token; within its sentence, if there are sentences.
        sentence: index of its sentence; 0 if there are none.
    """

    start: int
    end: int
    weight: float
    sentence: int


class ClassifiedParts(NamedTuple):
    """Attention weights of a classified text.

    Attributes:
        tokens: the tokens that are visible in the source, in order; none without weights.
        sentence_weights: attention weight of each sentence; None if the model returns none.
    """

    tokens: list[WeightedSpan]
    sentence_weights: np.ndarray | None

    def get_sentence_weight(self, token: WeightedSpan) -> float:
        """Return the weight of the sentence of a token; 1 without sentence weights."""
        weights = self.sentence_weights
        return 1.0 if weights is None else float(weights[token.sentence])


def check_classified(result: Any) -> ClassifiedParts:
    """Return the parts of a classified text.

    Tokens without characters, such as special tokens, are dropped, and those outside of all
    sentences. Tokens that share a character become one, with the sum of their weights.

    Args:
        result: a result with `classes`, `probabilities`, `source`, `tokens`, `offsets`,
            `attention`, `sentences` and `sentence_attention`, see `write_classified_page`.

    Raises:
        ValueError: if the numbers of classes and probabilities, of tokens, offsets and weights, or
            of sentences and their weights differ; if a probability or weight is not from 0 to 1; or
            if spans are not in order within the source.
    """
    _check_shares("probabilities", result.probabilities, "classes", len(result.classes))
    _check_spans("sentences", result.sentences, len(result.source))
    sentence_weights = result.sentence_attention
    if sentence_weights is not None:
        sentence_weights = _check_shares(
            "sentence_attention", sentence_weights, "sentences", len(result.sentences)
        )
    if result.attention is None:
        return ClassifiedParts([], sentence_weights)
    weights = _check_shares("attention", result.attention, "tokens", len(result.tokens))
    if len(result.offsets) != len(result.tokens):
        raise ValueError(
            f"offsets must have one span for each of {len(result.tokens)} tokens, got"
            f" {len(result.offsets)}"
        )
    tokens = _merge_overlapping(result.offsets, weights)
    _check_spans("offsets", [(start, end) for start, end, _ in tokens], len(result.source))
    sentences = result.sentences or [(0, len(result.source))]
    return ClassifiedParts(_assign_to_sentences(tokens, sentences), sentence_weights)


def _merge_overlapping(offsets: Spans, weights: np.ndarray) -> list[tuple[int, int, float]]:
    """Return start, end and weight of visible tokens; those that share a character become one."""
    merged: list[tuple[int, int, float]] = []
    for (start, end), weight in zip(offsets, weights, strict=True):
        if start < end and merged and merged[-1][0] <= start < merged[-1][1]:
            first, last, total = merged.pop()
            merged.append((first, max(last, end), total + float(weight)))
        elif start < end:
            merged.append((start, end, float(weight)))
    return merged


def _assign_to_sentences(
    tokens: Sequence[tuple[int, int, float]], sentences: Spans
) -> list[WeightedSpan]:
    """Return the tokens with their sentences; what is outside of a sentence is removed."""
    ends = [end for _, end in sentences]
    assigned = []
    for start, end, weight in tokens:
        number = min(int(np.searchsorted(ends, start, "right")), len(ends) - 1)
        start, end = max(start, sentences[number][0]), min(end, ends[number])
        if start < end:
            assigned.append(WeightedSpan(start, end, weight, number))
    return assigned


def _check_spans(name: str, spans: Spans, length: int) -> None:
    """Raise ValueError unless spans are in order, not empty, and within the source."""
    last = 0
    for start, end in spans:
        if not last <= start < end <= length:
            raise ValueError(
                f"{name} must be spans in order within the {length} characters of source, got"
                f" ({start}, {end}) after {last}"
            )
        last = end


def _check_shares(name: str, values: ArrayLike, items: str, count: int) -> np.ndarray:
    """Return an array of `count` numbers; values up to 1.001 (rounding) become 1."""
    array = np.asarray(values, np.float64)
    if array.shape != (count,):
        raise ValueError(
            f"{name} must have one number for each of {count} {items}, got shape {array.shape}"
        )
    if not ((array >= 0) & (array <= 1.001)).all():
        raise ValueError(
            f"{name} must be from 0 to 1, got values from {array.min()} to {array.max()}"
        )
    return np.minimum(array, 1.0)
