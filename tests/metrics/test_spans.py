"""Spans of tags: examples, golden scores of seqeval, and round trips.

`golden/spans.json` was made by seqeval 1.2.2 from random tags: eight cases of 25 sentences of 0
to 8 words for BIO, IOB1, BIOES and BMES (M is passed to seqeval as I), without types and with the
types A and B-C. 30 % of the predicted tags are resampled, so most sentences violate their scheme.
Scores are those of `sequence_labeling.precision_recall_fscore_support(expected, predicted,
average=..., zero_division=0)`, once with "micro" and once with None. The ninth case is valid BIOES,
scored with `mode="strict"` and `scheme=IOBES`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_zoo import ops
from attention_zoo.metrics import (
    Span,
    count_invalid_sequences,
    read_spans,
    span_scores,
    tag_accuracy,
)
from tests.refusals import refuses

LETTERS = {"BIO": "BIIB", "IOB1": "IIII", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES"}
"""Letters of the first, an inner, the last and a single word of a span."""
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "spans.json").read_text())

EXAMPLES = [
    ("BIO", "B-X I-X O B-X B-X", [(0, 2, "X"), (3, 4, "X"), (4, 5, "X")]),
    ("BIO", "I-X I-X I-Y O I-X", [(0, 2, "X"), (2, 3, "Y"), (4, 5, "X")]),
    ("BIO", "B I O I", [(0, 2, ""), (3, 4, "")]),
    ("IOB1", "I-X I-X B-X I-X I-Y", [(0, 2, "X"), (2, 4, "X"), (4, 5, "Y")]),
    ("BIOES", "S-X B-X I-X E-X O", [(0, 1, "X"), (1, 4, "X")]),
    ("BIOES", "E-X E-X I-X S-X I-X B-Y", [(n, n + 1, "X") for n in range(5)] + [(5, 6, "Y")]),
    ("BMES", "B-X M-X E-X M-X E-X S-X", [(0, 3, "X"), (3, 5, "X"), (5, 6, "X")]),
    ("BIO", "", []),
    ("BIO", "O O", []),
]


@pytest.mark.parametrize(("scheme", "tags", "spans"), EXAMPLES)
def test_read_spans_of_examples(scheme: str, tags: str, spans: list[tuple[int, int, str]]) -> None:
    assert read_spans(tags.split(), scheme) == [Span(*span) for span in spans]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["scheme"])
def test_scores_equal_seqeval(case: dict[str, Any]) -> None:
    predicted, expected = (
        [tags.split() for tags in case[side]] for side in ("predicted", "expected")
    )
    scores = span_scores(predicted, expected, case["scheme"])
    actual = np.array([scores.precision, scores.recall, scores.f1])
    np.testing.assert_allclose(actual, 100 * np.array(case["all"]), rtol=1e-12)
    *label_scores, counts = case["by_label"]
    for expected_scores, name in zip(label_scores, ("precision", "recall", "f1"), strict=True):
        actual = np.array([getattr(score, name) for score in scores.by_label.values()])
        np.testing.assert_allclose(actual, 100 * np.array(expected_scores), rtol=1e-12)
    assert [score.expected for score in scores.by_label.values()] == counts
    assert list(scores.by_label) == sorted(scores.by_label)


def test_golden_scores_are_diverse() -> None:
    figures = [figure for case in GOLDEN for figure in case["all"]]
    assert len(set(figures)) > 20
    assert 0 < min(figures) < max(figures) < 1


def make_tags(spans: list[tuple[int, str, bool]], scheme: str) -> tuple[list[str], list[Span]]:
    """Return tags of spans (number of words, type, whether "O" follows), and the spans."""
    tags: list[str] = []
    spans_of_tags, last = [], None
    for size, kind, is_separated in spans:
        first, inner, end, alone = LETTERS[scheme]
        if scheme == "IOB1" and last == kind:
            first = alone = "B"
        letters = [first, *[inner] * (size - 2), end] if size > 1 else [alone]
        spans_of_tags.append(Span(len(tags), len(tags) + size, kind))
        tags += [f"{letter}-{kind}" for letter in letters] + ["O"] * is_separated
        last = None if is_separated else kind
    return tags, spans_of_tags


SPANS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from("XY"), st.booleans()), max_size=6)


@settings(deadline=None)
@given(SPANS, st.sampled_from(sorted(LETTERS)))
def test_read_spans_inverts_valid_tags(spans: list[tuple[int, str, bool]], scheme: str) -> None:
    tags, spans_of_tags = make_tags(spans, scheme)
    assert read_spans(tags, scheme) == spans_of_tags
    assert count_invalid_sequences([tags], scheme) == 0
    scores = span_scores([tags], [tags], scheme)
    assert scores.f1 == scores.recall == scores.precision == (100.0 if spans_of_tags else 0.0)


@pytest.mark.parametrize("scheme", sorted(LETTERS))
def test_invalid_sequences_violate_the_constraints(scheme: str) -> None:
    letters = ops.TAG_SCHEMES.get(scheme)().letters()
    names = ["O", *(f"{letter}-{kind}" for letter in letters for kind in "XY")]
    constraints = ops.tag_constraints(scheme, names)
    rng = np.random.default_rng(3)
    tag_sequences = [rng.integers(len(names), size=size) for size in rng.integers(0, 5, 300)]
    is_invalid = [constraints.find_first_violation(row) is not None for row in tag_sequences]
    sentences = [[names[tag] for tag in row] for row in tag_sequences]
    assert [count_invalid_sequences([tags], scheme) for tags in sentences] == is_invalid
    assert count_invalid_sequences(sentences, scheme) == sum(is_invalid)
    assert span_scores(sentences, sentences, scheme).invalid == sum(is_invalid)
    assert 50 < sum(is_invalid) < 290


def test_no_spans_score_zero() -> None:
    for tags in ([], [[]], [["O", "O"]]):
        scores = span_scores(tags, tags, "BIO")
        assert (scores.precision, scores.recall, scores.f1) == (0.0, 0.0, 0.0)
        assert scores.by_label == {}
    one_sided = span_scores([["O"]], [["B-X"]], "BIO")
    assert (one_sided.precision, one_sided.recall, one_sided.f1) == (0.0, 0.0, 0.0)
    assert one_sided.by_label["X"].expected == 1
    assert tag_accuracy([], []) == tag_accuracy([[]], [[]]) == 0.0


def test_accuracy_counts_words() -> None:
    assert tag_accuracy([["O", "B-X"], ["O"]], [["O", "O"], ["O"]]) == pytest.approx(200 / 3)


@refuses(
    (lambda: read_spans(["B-X", "Q-X"], "BIO"), "tag 'Q-X' is not a BIO tag: use 'O', or B, I, a"),
    (lambda: read_spans(["E-X"], "BIO"), "tag 'E-X' is not a BIO tag"),
    (lambda: read_spans(["O"], "IOE2"), "unknown tag scheme 'IOE2'"),
    (lambda: read_spans("O", "BIO"), "tags of a sentence must be a list of strings"),
    (lambda: span_scores([["O"]], [], "BIO"), "got 1 predicted and 0 expected sentences"),
    (
        lambda: tag_accuracy([["O"], ["O"]], [["O"], []]),
        "sentence 1 must have one .*, got 1 predicted and 0",
    ),
)
def test_invalid_arguments_raise(call: Any) -> None:
    call()
