"""Spans marked by tags, and their precision, recall and F1 as computed by conlleval.

seqeval, which computes the same scores, is not a dependency: since 2020 it has been available only
as a source package, and it requires scikit-learn.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from attention_zoo.ops.tag_schemes import OUTSIDE, TAG_SCHEMES, TagScheme, letter_and_type

Tags = Sequence[str]


class Span(NamedTuple):
    """A labelled span of words.

    Attributes:
        start: index of the first word, from 0.
        end: index of the word after the last.
        label: type of the tags; "" if they have none.
    """

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class LabelScore:
    """Span scores of one label.

    Attributes:
        precision, recall, f1: 0 to 100; 0 if the denominator is 0.
        predicted: number of predicted spans.
        expected: number of expected spans.
    """

    precision: float
    recall: float
    f1: float
    predicted: int
    expected: int


@dataclass(frozen=True)
class SpanScores:
    """Span scores; a span is correct if its start, end and label are.

    Attributes:
        precision: percentage of the predicted spans that are correct; 0 if there are none.
        recall: percentage of the expected spans that are predicted; 0 if there are none.
        f1: 2 precision recall / (precision + recall); 0 if both are 0.
        by_label: the scores of each predicted or expected label, sorted.
        invalid: number of predicted sentences that violate the scheme.
    """

    precision: float
    recall: float
    f1: float
    by_label: dict[str, LabelScore]
    invalid: int


def read_spans(tags: Tags, scheme: str) -> list[Span]:
    """Return the spans of one sentence, even if its tags violate the scheme.

    A span continues over tags of its type. It ends before a "B" or "S", and after an "E" or "S".
    Any other tag except "O" starts a span, so an "I" after "O" or after another type starts one.
    conlleval treats BIO and IOB1 in this way, and seqeval, unless it is in strict mode, also BIOES.
    The "M" of BMES is the "I" of BIOES.

    Args:
        tags: one per word of a sentence.
        scheme: "BIO", "IOB1", "BIOES", "BMES", or another name in `ops.TAG_SCHEMES`.

    Example:
        >>> from attention_zoo.metrics import read_spans
        >>> read_spans(["B-PER", "I-PER", "O", "I-LOC"], "BIO")
        [Span(start=0, end=2, label='PER'), Span(start=3, end=4, label='LOC')]

    Raises:
        ValueError: for an unknown scheme, or a tag that does not belong to the scheme.
    """
    rules, begins = scheme_rules(scheme), span_letters(scheme)
    spans: list[Span] = []
    open_type, start = None, 0
    for place, (letter, kind) in enumerate(_parsed(tags, scheme)):
        goes_on = open_type == kind and letter != OUTSIDE and letter not in begins
        if open_type is not None and not goes_on:
            spans.append(Span(start, place, open_type))
        if letter == OUTSIDE:
            open_type = None
            continue
        start = start if goes_on else place
        open_type = kind
        if letter not in rules.goes_on:
            spans.append(Span(start, place + 1, kind))
            open_type = None
    return spans if open_type is None else [*spans, Span(start, len(tags), open_type)]


def span_scores(predicted: Sequence[Tags], expected: Sequence[Tags], scheme: str) -> SpanScores:
    """Compute precision, recall and F1 of the spans of all sentences together.

    Args:
        predicted, expected: the tags of each sentence.
        scheme: the scheme of both, see `read_spans`.

    Raises:
        ValueError: if the numbers of sentences or words differ; see also `read_spans`.
    """
    _check_same_places(predicted, expected)
    found, there, right = Counter[str](), Counter[str](), Counter[str]()
    for one, other in zip(predicted, expected, strict=True):
        own, true = set(read_spans(one, scheme)), set(read_spans(other, scheme))
        for count, spans in ((found, own), (there, true), (right, own & true)):
            count.update(span.label for span in spans)
    by_label = {
        label: _score(right[label], found[label], there[label])
        for label in sorted(found.keys() | there.keys())
    }
    whole = _score(right.total(), found.total(), there.total())
    invalid = invalid_sequences(predicted, scheme)
    return SpanScores(whole.precision, whole.recall, whole.f1, by_label, invalid)


def invalid_sequences(sentences: Sequence[Tags], scheme: str) -> int:
    """Count the sentences whose tags violate the scheme.

    Raises:
        ValueError: for an unknown scheme, or a tag that does not belong to the scheme.
    """
    rules = scheme_rules(scheme)
    return sum(not _keeps(_parsed(tags, scheme), rules) for tags in sentences)


def tag_accuracy(predicted: Sequence[Tags], expected: Sequence[Tags]) -> float:
    """Compute the percentage of words with the correct tag; 0 if there are no words.

    Raises:
        ValueError: if the numbers of sentences or words differ.
    """
    _check_same_places(predicted, expected)
    pairs = [
        one == other
        for sentence, reference in zip(predicted, expected, strict=True)
        for one, other in zip(sentence, reference, strict=True)
    ]
    return _percent(sum(pairs), len(pairs))


def scheme_rules(scheme: str) -> TagScheme:
    """Return the rules of a scheme; raise ValueError for an unknown one."""
    rules: TagScheme = TAG_SCHEMES.get(scheme)()
    return rules


def span_letters(scheme: str) -> frozenset[str]:
    """Return the letters that start a span whatever the previous tag is."""
    rules = scheme_rules(scheme)
    return frozenset(rules.starts) - frozenset(rules.continues) | {"B"}  # IOB1's B separates spans


def _parsed(tags: Tags, scheme: str) -> list[tuple[str, str]]:
    """Return the letter and type of each tag."""
    if isinstance(tags, str):
        raise ValueError(
            f"the tags of a sentence must be a list of strings, got the string {tags!r}"
        )
    return [parse_tag(tag, scheme) for tag in tags]


@functools.lru_cache(maxsize=4096)
def parse_tag(tag: str, scheme: str) -> tuple[str, str]:
    """Split a tag into letter and type, "B-PER" into B and PER; raise ValueError if invalid."""
    return letter_and_type(tag, scheme, scheme_rules(scheme))


def _keeps(tags: list[tuple[str, str]], rules: TagScheme) -> bool:
    """Return whether each tag may follow the previous one, and the last may end the sentence."""
    before, kind = OUTSIDE, ""
    for letter, own in tags:
        free = letter == OUTSIDE or letter in rules.starts
        goes_on = before in rules.goes_on and letter in rules.continues and kind == own
        if not (goes_on or (free and _over(before, rules))):
            return False
        before, kind = letter, own
    return _over(before, rules)


def _over(letter: str, rules: TagScheme) -> bool:
    return letter == OUTSIDE or letter in rules.closes


def _check_same_places(predicted: Sequence[Tags], expected: Sequence[Tags]) -> None:
    if len(predicted) != len(expected):
        raise ValueError(
            f"there are {len(predicted)} predicted and {len(expected)} expected sentences: give"
            " both for every sentence"
        )
    for row, (one, other) in enumerate(zip(predicted, expected, strict=True)):
        if len(one) != len(other):
            raise ValueError(
                f"sentence {row} has {len(one)} predicted and {len(other)} expected tags: give both"
                " for every word"
            )


def _score(right: int, predicted: int, expected: int) -> LabelScore:
    precision, recall = _percent(right, predicted), _percent(right, expected)
    f1 = _percent(2 * right, predicted + expected)
    return LabelScore(precision, recall, f1, predicted, expected)


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
