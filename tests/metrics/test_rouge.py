"""ROUGE computed by hand, and its confidence intervals."""

from __future__ import annotations

import pytest

from attention_zoo.metrics import rouge
from tests.refusals import refuses


def test_rouge_equals_hand_computed_value() -> None:
    """3 and 4 words have 2 in common; their stems have 3 words and 1 pair in common."""
    scores = rouge(["police kill gunman"], ["police killed the gunmen"], stem=False)
    assert [scores[kind].score for kind in ("rouge1", "rouge2", "rougeL")] == pytest.approx(
        [100 * 2 / 7, 0, 100 * 2 / 7]
    )
    stemmed = rouge(["police kill gunman"], ["police killed the gunman"])
    assert stemmed["rouge1"].score == pytest.approx(100 * 6 / 7)
    assert stemmed["rouge2"].score == pytest.approx(100 * 2 / 5)


def test_word_order_affects_rouge_l_only() -> None:
    scores = rouge(["b a"], ["a b"])
    assert scores["rouge1"].score == 100
    assert scores["rougeL"].score == 50
    assert scores["rouge2"].score == 0


def test_best_reference_counts_for_each_kind() -> None:
    scores = rouge(["b a"], [["a b c d", "b x"]])
    assert scores["rouge1"].score == pytest.approx(100 * 2 * 1 * 0.5 / 1.5)
    assert scores["rougeL"].score == pytest.approx(50)
    assert rouge(["x"], ["x"]) == rouge(["x"], [["x"]])


def test_empty_summaries_score_zero() -> None:
    assert {one.score for one in rouge(["", "  "], ["a b", "c"]).values()} == {0.0}


def test_intervals_are_bootstrap_intervals() -> None:
    """Half of 400 texts are correct: the standard deviation of the mean is 2.5 (binomial)."""
    scores = rouge(["a b c"] * 400, ["a b c", "x y z"] * 200)["rouge1"]
    assert scores.score == 50
    assert scores.low == pytest.approx(50 - 1.96 * 2.5, abs=0.8)
    assert scores.high == pytest.approx(50 + 1.96 * 2.5, abs=0.8)
    constant = rouge(["a b"] * 3, ["a b c"] * 3)["rouge2"]
    assert constant.low == pytest.approx(constant.score)
    assert constant.high == pytest.approx(constant.score)


def test_bootstrap_is_seeded() -> None:
    texts, references = ["a", "b", "c", "d"], ["a", "b", "x", "y"]
    first, again = (rouge(texts, references, samples=20) for _ in range(2))
    assert first == again
    assert first != rouge(texts, references, samples=20, seed=5)


@refuses(
    (([], []), {}, "at least one of each, got 0 hypotheses, 0 references"),
    ((["a"], ["a", "b"]), {}, "1 hypotheses, 2 references"),
    (("a", ["a"]), {}, "hypotheses must be a list of strings, got one string"),
    ((["a"], [[]]), {}, "text 0 must have at least one reference"),
    ((["a"], ["a"]), {"samples": 0}, "samples must be at least 1, got 0"),
)
def test_invalid_arguments_raise(texts: tuple, options: dict) -> None:
    rouge(*texts, **options)
