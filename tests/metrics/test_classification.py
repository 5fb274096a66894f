"""Scores of predicted classes and sets of classes, computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.metrics import ClassScore, class_scores, multi_label_scores
from tests.refusals import refuses

CLASSES = ["cat", "dog", "fox", "owl"]
REFERENCES = ["cat", "cat", "cat", "dog", "dog", "fox"]
PREDICTED = ["cat", "cat", "dog", "dog", "fox", "cat"]


def test_scores_equal_hand_computed_values() -> None:
    """cat: 2 of 3 predicted and of 3 expected; dog: 1 of 2 and of 2; fox: 0 of 1 and of 1."""
    scores = class_scores(PREDICTED, REFERENCES, CLASSES)
    assert scores.confusion.tolist() == [[2, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert scores.accuracy == pytest.approx(50)
    assert scores.by_class["cat"] == ClassScore(*[pytest.approx(200 / 3)] * 3, 3, 3)
    assert scores.by_class["dog"] == ClassScore(50, 50, 50, 2, 2)
    assert scores.by_class["fox"] == ClassScore(0, 0, 0, 1, 1)
    assert scores.by_class["owl"] == ClassScore(0, 0, 0, 0, 0)
    assert list(scores.by_class) == CLASSES
    macro = (200 / 3 + 50 + 0) / 3  # without owl
    assert (scores.macro_precision, scores.macro_recall, scores.macro_f1) == pytest.approx(
        (macro, macro, macro)
    )


def test_macro_f1_is_the_mean_over_classes() -> None:
    """a: precision 50, recall 100, F1 200 / 3; b: precision 100, recall 200 / 3, F1 80."""
    scores = class_scores(["a", "a", "b", "b"], ["a", "b", "b", "b"], ["a", "b"])
    assert scores.macro_precision == pytest.approx(75)
    assert scores.macro_recall == pytest.approx(250 / 3)
    assert scores.macro_f1 == pytest.approx((200 / 3 + 80) / 2)
    assert scores.macro_f1 != pytest.approx(2 * 75 * 250 / 3 / (75 + 250 / 3), abs=1)


def test_a_class_that_is_only_predicted_counts_in_the_macro_averages() -> None:
    scores = class_scores(["a", "b"], ["a", "a"], ["a", "b"])
    assert (scores.macro_precision, scores.macro_recall) == (50, 25)
    assert scores.macro_f1 == pytest.approx(100 / 3)
    assert class_scores(["a", "a"], ["a", "a"], ["a", "b"]).macro_f1 == 100


def test_counts_equal_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    names = [f"class {n}" for n in range(7)]
    references, predicted = ([names[n] for n in rng.integers(7, size=200)] for _ in range(2))
    scores = class_scores(predicted, references, names)
    pairs = list(zip(references, predicted, strict=True))
    assert scores.confusion.tolist() == [[pairs.count((r, p)) for p in names] for r in names]
    assert scores.accuracy == pytest.approx(100 * np.mean([r == p for r, p in pairs]))
    score = scores.by_class["class 3"]
    assert (score.predicted, score.support) == (
        predicted.count("class 3"),
        references.count("class 3"),
    )
    hits = pairs.count(("class 3", "class 3"))
    assert score.precision == pytest.approx(100 * hits / score.predicted)
    assert score.recall == pytest.approx(100 * hits / score.support)


def test_label_sets_equal_hand_computed_values() -> None:
    """a: 1 of 2 predicted, 1 expected; b: 1 of 1, 2 expected; c: not predicted, 1 expected."""
    predicted = [{"a"}, ["a", "b"], (), set()]
    references = [("a",), {"b"}, {"b", "c"}, []]
    scores = multi_label_scores(predicted, references, ["a", "b", "c", "d"])
    assert scores.exact_match == 50
    micro = (200 / 3, 50, 400 / 7)  # 2 correct of 3 predicted and 4 expected
    assert (scores.micro_precision, scores.micro_recall, scores.micro_f1) == pytest.approx(micro)
    macro = ((50 + 100 + 0) / 3, (100 + 50 + 0) / 3, (200 / 3 + 200 / 3 + 0) / 3)
    assert (scores.macro_precision, scores.macro_recall, scores.macro_f1) == pytest.approx(macro)
    assert scores.by_class["b"] == ClassScore(100, 50, pytest.approx(200 / 3), 1, 2)
    assert scores.by_class["d"] == ClassScore(0, 0, 0, 0, 0)


def test_sets_of_one_class_score_as_classes() -> None:
    rng = np.random.default_rng(1)
    names = list("abcde")
    references, predicted = ([names[n] for n in rng.integers(5, size=60)] for _ in range(2))
    single = class_scores(predicted, references, names)
    sets = multi_label_scores([{n} for n in predicted], [{n} for n in references], names)
    assert sets.by_class == single.by_class
    assert sets.macro_f1 == single.macro_f1
    assert sets.exact_match == sets.micro_f1 == sets.micro_recall == single.accuracy


def test_empty_sets() -> None:
    scores = multi_label_scores([()], [()], ["a"])
    assert (scores.exact_match, scores.micro_f1, scores.macro_f1) == (100, 0, 0)
    assert multi_label_scores([("a", "a")], [("a",)], ["a"]).exact_match == 100


@refuses(
    (lambda: class_scores([], [], ["a"]), "expected at least one of each, got 0 predicted, 0 ref"),
    (lambda: class_scores(["a"], ["a", "a"], ["a"]), "got 1 predicted, 2 references"),
    (lambda: class_scores(["a"], ["A"], ["a", "b"]), "unknown class 'A'; did you mean 'a'. .*a, b"),
    (lambda: class_scores(["c"], ["a"], ["a", "b"]), r"unknown class 'c' \(known: a, b\)"),
    (lambda: class_scores("a", ["a"], ["a"]), "predicted must be a list of strings, got one str"),
    (lambda: class_scores(["a"], ["a"], ["a", "b", "a"]), "classes must differ, got 'a' twice"),
    (lambda: multi_label_scores([()], [("b",)], ["a"]), "unknown class 'b'"),
    (lambda: multi_label_scores([(), "ab"], [(), ()], ["a"]), "classes of example 1 must be a set"),
    (lambda: multi_label_scores([], [], ["a"]), "expected at least one of each"),
)
def test_invalid_arguments_raise(call: Any) -> None:
    call()
