"""ROUGE by hand and as published, its intervals, and what is refused."""

from __future__ import annotations

import pytest

from attention_zoo.metrics import rouge
from tests.refusals import refuses


def test_by_hand() -> None:
    """Of 3 and 4 words 2 are shared, of 2 and 3 pairs 1, in order 2."""
    found = rouge(["police kill gunman"], ["police killed the gunmen"], stem=False)
    assert [found[kind].score for kind in ("rouge1", "rouge2", "rougeL")] == pytest.approx(
        [100 * 2 / 7, 0, 100 * 2 / 7]
    )
    stems = rouge(["police kill gunman"], ["police killed the gunman"])
    assert stems["rouge1"].score == pytest.approx(100 * 6 / 7)
    assert stems["rouge2"].score == pytest.approx(100 * 2 / 5)


def test_order_counts_in_longest_subsequences_alone() -> None:
    found = rouge(["b a"], ["a b"])
    assert found["rouge1"].score == 100
    assert found["rougeL"].score == 50
    assert found["rouge2"].score == 0


def test_the_best_of_several_references_counts_for_each_kind() -> None:
    found = rouge(["b a"], [["a b c d", "b x"]])
    assert found["rouge1"].score == pytest.approx(100 * 2 * 1 * 0.5 / 1.5)
    assert found["rougeL"].score == pytest.approx(50)
    assert rouge(["x"], ["x"]) == rouge(["x"], [["x"]])


def test_empty_summaries_score_nothing() -> None:
    assert {one.score for one in rouge(["", "  "], ["a b", "c"]).values()} == {0.0}


def test_intervals_are_those_of_texts_drawn_anew() -> None:
    """Half of 400 texts right: the mean's standard deviation is 2.5, by the binomial."""
    found = rouge(["a b c"] * 400, ["a b c", "x y z"] * 200)["rouge1"]
    assert found.score == 50
    assert found.low == pytest.approx(50 - 1.96 * 2.5, abs=0.8)
    assert found.high == pytest.approx(50 + 1.96 * 2.5, abs=0.8)
    same = rouge(["a b"] * 3, ["a b c"] * 3)["rouge2"]
    assert same.low == pytest.approx(same.score)
    assert same.high == pytest.approx(same.score)


def test_draws_are_seeded() -> None:
    texts, references = ["a", "b", "c", "d"], ["a", "b", "x", "y"]
    first, again = (rouge(texts, references, samples=20) for _ in range(2))
    assert first == again
    assert first != rouge(texts, references, samples=20, seed=5)


@refuses(
    (([], []), {}, "0 hypotheses, 0 references: give at least one"),
    ((["a"], ["a", "b"]), {}, "1 hypotheses, 2 references"),
    (("a", ["a"]), {}, "hypotheses is one string"),
    ((["a"], [[]]), {}, "text 0 has no reference"),
    ((["a"], ["a"]), {"samples": 0}, "samples is 0: it must be at least 1"),
)
def test_what_is_refused(texts: tuple, options: dict) -> None:
    rouge(*texts, **options)
