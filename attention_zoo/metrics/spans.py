"""Spans that tags mark, and how many of them are right, counted as conlleval counts.

seqeval, which counts alike, is not depended on: it has been a source package alone since 2020 and
brings scikit-learn with it.
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
    """Some words that belong together, and what they are.

    Attributes:
        start: number of the first word, from 0.
        end: number of the word after the last.
        label: the type of the tags; "" where they have none.
    """

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class LabelScore:
    """How well the spans of one label are found.

    Attributes:
        precision, recall, f1: 0 to 100; 0 where nothing is there to be counted.
        predicted: how many spans were predicted.
        expected: how many there are.
    """

    precision: float
    recall: float
    f1: float
    predicted: int
    expected: int


@dataclass(frozen=True)
class SpanScores:
    """How well spans are found; one is right if both its ends and its label are.

    Attributes:
        precision: percent of the predicted spans that are right; 0 of none.
        recall: percent of the expected spans that are predicted; 0 of none.
        f1: 2 precision recall / (precision + recall); 0 where both are 0.
        by_label: the same for each label of either side, in order.
        invalid: how many of the predicted sentences break the scheme.
    """

    precision: float
    recall: float
    f1: float
    by_label: dict[str, LabelScore]
    invalid: int


def read_spans(tags: Tags, scheme: str) -> list[Span]:
    """The spans of one sentence, whether its tags keep the scheme or not.

    A span goes on as long as there are tags of its type, and ends before a "B" or "S" and after an
    "E" or "S". Any other tag but "O" begins one, so that an "I" after "O" or after another type
    does. That is how conlleval reads BIO and IOB1, and seqeval (unless it is told to be strict)
    BIOES too; the "M" of BMES is the "I" of BIOES.

    Args:
        tags: of the words of a sentence.
        scheme: "BIO", "IOB1", "BIOES", "BMES", or another name in `ops.TAG_SCHEMES`.

    Example:
        >>> from attention_zoo.metrics import read_spans
        >>> read_spans(["B-PER", "I-PER", "O", "I-LOC"], "BIO")
        [Span(start=0, end=2, label='PER'), Span(start=3, end=4, label='LOC')]

    Raises:
        ValueError: an unknown scheme, or a tag that is none of it.
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
    """Precision, recall and F1 of the spans of all sentences together.

    Args:
        predicted, expected: the tags of each sentence.
        scheme: see `read_spans`, which reads both.

    Raises:
        ValueError: sentences or words that are not as many on both sides; see also `read_spans`.
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
    """How many sentences have tags that break the scheme.

    Raises:
        ValueError: an unknown scheme, or a tag that is none of it.
    """
    rules = scheme_rules(scheme)
    return sum(not _keeps(_parsed(tags, scheme), rules) for tags in sentences)


def tag_accuracy(predicted: Sequence[Tags], expected: Sequence[Tags]) -> float:
    """Percent of the words whose tag is right; 0 of no words.

    Raises:
        ValueError: sentences or words that are not as many on both sides.
    """
    _check_same_places(predicted, expected)
    pairs = [
        one == other
        for sentence, reference in zip(predicted, expected, strict=True)
        for one, other in zip(sentence, reference, strict=True)
    ]
    return _percent(sum(pairs), len(pairs))


def scheme_rules(scheme: str) -> TagScheme:
    """The rules of a scheme; ValueError for an unknown one."""
    rules: TagScheme = TAG_SCHEMES.get(scheme)()
    return rules


def span_letters(scheme: str) -> frozenset[str]:
    """The letters with which a span begins whatever stands before."""
    rules = scheme_rules(scheme)
    return frozenset(rules.starts) - frozenset(rules.continues) | {"B"}  # IOB1's B parts spans


def _parsed(tags: Tags, scheme: str) -> list[tuple[str, str]]:
    """Letter and type of each tag."""
    if isinstance(tags, str):
        raise ValueError(f"the tags of a sentence are a list of strings, not one: {tags!r}")
    return [parse_tag(tag, scheme) for tag in tags]


@functools.lru_cache(maxsize=4096)
def parse_tag(tag: str, scheme: str) -> tuple[str, str]:
    """Letter and type of a tag: "B-PER" to B and PER; ValueError for one that is none."""
    return letter_and_type(tag, scheme, scheme_rules(scheme))


def _keeps(tags: list[tuple[str, str]], rules: TagScheme) -> bool:
    """Whether each tag may follow the one before, and the sentence end after the last."""
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
