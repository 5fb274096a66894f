"""Spans of tags: by hand, against seqeval's figures, and back to tags.

`golden/spans.json` was made with seqeval 1.2.2, of tags drawn at random: eight cases of 25
sentences of 0 to 8 words for BIO, IOB1, BIOES and BMES (its M given to seqeval as I), without types
and with the types A and B-C, three predicted tags in ten drawn anew, so that most sentences break
their scheme; scored by `sequence_labeling.precision_recall_fscore_support(expected, predicted,
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
from attention_zoo.metrics import Span, invalid_sequences, read_spans, span_scores, tag_accuracy
from tests.refusals import refuses

LETTERS = {"BIO": "BIIB", "IOB1": "IIII", "BIOES": "BIES", "BMES": "BMES"}  # first ... alone
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "spans.json").read_text())

BY_HAND = [
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


@pytest.mark.parametrize(("scheme", "tags", "spans"), BY_HAND)
def test_spans_by_hand(scheme: str, tags: str, spans: list[tuple[int, int, str]]) -> None:
    assert read_spans(tags.split(), scheme) == [Span(*span) for span in spans]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["scheme"])
def test_scores_are_those_of_seqeval(case: dict[str, Any]) -> None:
    predicted, expected = (
        [tags.split() for tags in case[side]] for side in ("predicted", "expected")
    )
    found = span_scores(predicted, expected, case["scheme"])
    got = np.array([found.precision, found.recall, found.f1])
    np.testing.assert_allclose(got, 100 * np.array(case["all"]), rtol=1e-12)
    *shares, counts = case["by_label"]
    for part, name in zip(shares, ("precision", "recall", "f1"), strict=True):
        got = np.array([getattr(score, name) for score in found.by_label.values()])
        np.testing.assert_allclose(got, 100 * np.array(part), rtol=1e-12)
    assert [score.expected for score in found.by_label.values()] == counts
    assert list(found.by_label) == sorted(found.by_label)


def test_goldens_hold_figures_to_tell_apart() -> None:
    figures = [figure for case in GOLDEN for figure in case["all"]]
    assert len(set(figures)) > 20
    assert 0 < min(figures) < max(figures) < 1


def written(spans: list[tuple[int, str, bool]], scheme: str) -> tuple[list[str], list[Span]]:
    """Tags of (words, type, whether "O" follows), and the spans they mark."""
    tags: list[str] = []
    marked, last = [], None
    for size, kind, apart in spans:
        first, inner, end, alone = LETTERS[scheme]
        if scheme == "IOB1" and last == kind:
            first = alone = "B"
        letters = [first, *[inner] * (size - 2), end] if size > 1 else [alone]
        marked.append(Span(len(tags), len(tags) + size, kind))
        tags += [f"{letter}-{kind}" for letter in letters] + ["O"] * apart
        last = None if apart else kind
    return tags, marked


SPANS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from("XY"), st.booleans()), max_size=6)


@settings(deadline=None)
@given(SPANS, st.sampled_from(sorted(LETTERS)))
def test_spans_of_valid_tags_are_those_written(
    spans: list[tuple[int, str, bool]], scheme: str
) -> None:
    tags, marked = written(spans, scheme)
    assert read_spans(tags, scheme) == marked
    assert invalid_sequences([tags], scheme) == 0
    scores = span_scores([tags], [tags], scheme)
    assert scores.f1 == scores.recall == scores.precision == (100.0 if marked else 0.0)


@pytest.mark.parametrize("scheme", sorted(LETTERS))
def test_invalid_sequences_are_those_that_constraints_forbid(scheme: str) -> None:
    letters = ops.TAG_SCHEMES.get(scheme)().letters()
    names = ["O", *(f"{letter}-{kind}" for letter in letters for kind in "XY")]
    constraints = ops.tag_constraints(scheme, names)
    rng = np.random.default_rng(3)
    drawn = [rng.integers(len(names), size=size) for size in rng.integers(0, 5, 300)]
    broken = [constraints.find_first_violation(row) is not None for row in drawn]
    sentences = [[names[tag] for tag in row] for row in drawn]
    assert [invalid_sequences([tags], scheme) for tags in sentences] == broken
    assert invalid_sequences(sentences, scheme) == sum(broken)
    assert span_scores(sentences, sentences, scheme).invalid == sum(broken)
    assert 50 < sum(broken) < 290


def test_nothing_scores_nothing() -> None:
    for tags in ([], [[]], [["O", "O"]]):
        scores = span_scores(tags, tags, "BIO")
        assert (scores.precision, scores.recall, scores.f1) == (0.0, 0.0, 0.0)
        assert scores.by_label == {}
    one_sided = span_scores([["O"]], [["B-X"]], "BIO")
    assert (one_sided.precision, one_sided.recall, one_sided.f1) == (0.0, 0.0, 0.0)
    assert one_sided.by_label["X"].expected == 1
    assert tag_accuracy([], []) == tag_accuracy([[]], [[]]) == 0.0


def test_accuracy_is_of_words() -> None:
    assert tag_accuracy([["O", "B-X"], ["O"]], [["O", "O"], ["O"]]) == pytest.approx(200 / 3)


@refuses(
    (lambda: read_spans(["B-X", "Q-X"], "BIO"), "tag 'Q-X' is not a BIO tag: use 'O', or B, I, a"),
    (lambda: read_spans(["E-X"], "BIO"), "tag 'E-X' is not a BIO tag"),
    (lambda: read_spans(["O"], "BILOU"), "unknown tag scheme 'BILOU'"),
    (lambda: read_spans("O", "BIO"), "the tags of a sentence must be a list of strings"),
    (lambda: span_scores([["O"]], [], "BIO"), "there are 1 predicted and 0 expected sentences"),
    (lambda: tag_accuracy([["O"], ["O"]], [["O"], []]), "sentence 1 has 1 predicted and 0"),
)
def test_what_cannot_be_counted_is_refused(call: Any) -> None:
    call()
