"""Spans marked by tags, and their precision, recall and F1 as computed by conlleval.

seqeval, which computes the same scores, is not a dependency: since 2020 it has been available only
as a source package, and it requires scikit-learn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from attention_zoo.metrics.scores import compute_f1, compute_percentage
from attention_zoo.ops.tag_schemes import OUTSIDE, OUTSIDE_TAG, Tag, get_tag_scheme, split_tag

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
    The "M" of BMES is the "I" of BIOES; the "L" and "U" of BILOU are its "E" and "S".

    Args:
        tags: one per word of a sentence.
        scheme: "BIO", "IOB1", "BIOES", "BILOU", "BMES", or another name in `ops.TAG_SCHEMES`.

    Example:
        >>> from attention_zoo.metrics import read_spans
        >>> read_spans(["B-PER", "I-PER", "O", "I-LOC"], "BIO")
        [Span(start=0, end=2, label='PER'), Span(start=3, end=4, label='LOC')]

    Raises:
        ValueError: for an unknown scheme, or a tag that does not belong to the scheme.
    """
    rules = get_tag_scheme(scheme)
    starting_letters = rules.span_letters()
    spans: list[Span] = []
    is_open = False
    for position, (letter, label) in enumerate(_parse_tags(tags, scheme)):
        if letter != OUTSIDE:
            continues = is_open and spans[-1].label == label and letter not in starting_letters
            start = spans.pop().start if continues else position
            spans.append(Span(start, position + 1, label))
        is_open = letter in rules.continuable
    return spans


def span_scores(predicted: Sequence[Tags], expected: Sequence[Tags], scheme: str) -> SpanScores:
    """Compute precision, recall and F1 of the spans of all sentences together.

    Args:
        predicted, expected: the tags of each sentence.
        scheme: the scheme of both, see `read_spans`.

    Raises:
        ValueError: if the numbers of sentences or words differ; see also `read_spans`.
    """
    _check_same_lengths(predicted, expected)
    predicted_spans, expected_spans = (
        {(row, span) for row, tags in enumerate(sentences) for span in read_spans(tags, scheme)}
        for sentences in (predicted, expected)
    )
    num_correct, num_predicted, num_expected = (
        Counter(span.label for _, span in spans)
        for spans in (predicted_spans & expected_spans, predicted_spans, expected_spans)
    )
    by_label = {
        label: LabelScore(
            *compute_f1(num_correct[label], num_predicted[label], num_expected[label]),
            num_predicted[label],
            num_expected[label],
        )
        for label in sorted(num_predicted.keys() | num_expected.keys())
    }
    scores = compute_f1(num_correct.total(), num_predicted.total(), num_expected.total())
    return SpanScores(*scores, by_label, count_invalid_sequences(predicted, scheme))


def count_invalid_sequences(sentences: Sequence[Tags], scheme: str) -> int:
    """Count the sentences whose tags violate the scheme.

    Raises:
        ValueError: for an unknown scheme, or a tag that does not belong to the scheme.
    """
    rules = get_tag_scheme(scheme)

    def is_valid(tags: Tags) -> bool:
        pairs = pairwise([OUTSIDE_TAG, *_parse_tags(tags, scheme), OUTSIDE_TAG])
        return all(rules.allows(previous, tag) for previous, tag in pairs)

    return sum(not is_valid(tags) for tags in sentences)


def tag_accuracy(predicted: Sequence[Tags], expected: Sequence[Tags]) -> float:
    """Compute the percentage of words with the correct tag; 0 if there are no words.

    Raises:
        ValueError: if the numbers of sentences or words differ.
    """
    _check_same_lengths(predicted, expected)
    hits = [
        predicted_tag == expected_tag
        for predicted_tags, expected_tags in zip(predicted, expected, strict=True)
        for predicted_tag, expected_tag in zip(predicted_tags, expected_tags, strict=True)
    ]
    return compute_percentage(sum(hits), len(hits))


def _parse_tags(tags: Tags, scheme: str) -> list[Tag]:
    """Return the letter and type of each tag."""
    if isinstance(tags, str):
        raise ValueError(f"tags of a sentence must be a list of strings, got the string {tags!r}")
    return [split_tag(tag, scheme) for tag in tags]


def _check_same_lengths(predicted: Sequence[Tags], expected: Sequence[Tags]) -> None:
    if len(predicted) != len(expected):
        raise ValueError(
            f"expected predicted and expected tags for every sentence, got {len(predicted)}"
            f" predicted and {len(expected)} expected sentences"
        )
    for row, (predicted_tags, expected_tags) in enumerate(zip(predicted, expected, strict=True)):
        if len(predicted_tags) != len(expected_tags):
            raise ValueError(
                f"sentence {row} must have one predicted and one expected tag per word, got"
                f" {len(predicted_tags)} predicted and {len(expected_tags)} expected tags"
            )
