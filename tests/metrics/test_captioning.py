"""BLEU and ROUGE-L of captions by hand, with several references, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from attention_zoo.metrics import caption_scores, cider, exact_match
from attention_zoo.metrics.wording import caption_words
from tests.refusals import refuses


def test_bleu_by_hand() -> None:
    """Right are 3 of 3 words, "the" twice as in the second reference, 2 of 2 pairs, and no triple.
    Lengths 2 and 4 are as close to 3: the shorter one counts."""
    scores = caption_scores(["the the cat"], [["the cat", "the the dog runs"]])
    assert scores[:4] == pytest.approx((100, 100, 0, 0))


def test_bleu_is_of_all_captions_and_of_the_closest_length() -> None:
    """Of 4 + 2 words 4 + 1 are right, of 3 + 1 pairs 3, of 2 triples 2, of 1 quadruple 1; the
    references that are closest have 4 and 3 words."""
    scores = caption_scores(["a b c d", "x y"], [["a b c d", "a b", "c d e f g"], ["x z w"]])
    shortness = math.exp(1 - 7 / 6)
    right = (5 / 6, 3 / 4, 1, 1)
    for n in range(1, 5):
        assert scores[n - 1] == pytest.approx(100 * shortness * math.prod(right[:n]) ** (1 / n))
    for part in ("nrefs:var", "tok:none", "smooth:none"):
        assert part in scores.bleu_signature


def test_rouge_l_by_hand() -> None:
    """In common in order are 2, 2 and 3 words: precision is best with the last, recall with the
    first reference. The other image has nothing in common."""
    references = [["a c", "a b x x x x", "x a x b x c"], ["q"]]
    scores = caption_scores(["a b c d", "p"], references)
    precision, recall = 3 / 4, 2 / 2
    best = 2.44 * precision * recall / (recall + 1.44 * precision)
    assert scores.rouge_l == pytest.approx(100 * best / 2)
    assert caption_scores(["b a"], ["a b"]).rouge_l == pytest.approx(50)


def test_words_are_compared_without_case_and_signs() -> None:
    captions = ["A man's dog doesn't run.", "Two t-shirts !"]
    references = [["a man 's dog does n't run"], ["two t-shirts"]]
    scores = caption_scores(captions, references)
    assert scores[:5] == pytest.approx((100,) * 5)
    assert scores.cider == pytest.approx(
        1000 * (1 + 2 / 4) / 2
    )  # of two words there are no triples


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's (he thinks) 3.5 m, isn’t it?", "it s he thinks 3.5 m is n't it"),
        ("it 's he thinks 3.5 m , is n't it ?", "it s he thinks 3.5 m is n't it"),
        ("'Tis the dogs' o'clock - they’d", "tis the dogs o'clock they d"),
        ("  ... ", ""),
    ],
)
def test_words(text: str, words: str) -> None:
    assert caption_words(text) == words.split()


def test_captions_of_nothing() -> None:
    assert caption_scores(["", "..."], [["a dog"], ["", "a cat"]])[:6] == (0,) * 6
    half = caption_scores(["", "a cat"], [["a dog"], ["", "a cat"]])
    assert half.rouge_l == pytest.approx(50)
    assert half.bleu1 == pytest.approx(100 * math.exp(1 - 4 / 2))
    assert caption_scores(["a"], [[""]])[:6] == (0,) * 6


def test_exact_match_takes_any_reference() -> None:
    assert exact_match(["a b", "c", "d"], [["x", "a b"], "c", ["D"]]) == pytest.approx(200 / 3)
    assert exact_match(["a"], ["ab"]) == 0


@pytest.mark.parametrize("metric", [caption_scores, cider])
@refuses(
    (([], []), "there are 0 captions, 0 references: give at least one"),
    ((["a"], [["a"], ["b"]]), "there are 1 captions, 2 references"),
    (("a", [["a"]]), "captions is one string"),
    ((["a", "b"], [["a"], []]), "text 1 has no reference: give one at least"),
)
def test_what_is_refused(texts: tuple, metric: Any) -> None:
    metric(*texts)
