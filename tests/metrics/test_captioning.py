"""BLEU and ROUGE-L of captions with several references, computed by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from attention_zoo.metrics import caption_scores, cider, exact_match
from attention_zoo.metrics.summarization import caption_words
from tests.refusals import refuses


def test_bleu_equals_hand_computed_value() -> None:
    """3 of 3 words match ("the" twice, as in the second reference), 2 of 2 pairs and no triple.
    Lengths 2 and 4 are equally close to 3: the shorter one counts."""
    scores = caption_scores(["the the cat"], [["the cat", "the the dog runs"]])
    assert scores[:4] == pytest.approx((100, 100, 0, 0))


def test_bleu_is_corpus_bleu_with_closest_reference_length() -> None:
    """4 + 1 of 4 + 2 words match, 3 of 3 + 1 pairs, 2 of 2 triples, 1 of 1 quadruple; the closest
    references have 4 and 3 words."""
    scores = caption_scores(["a b c d", "x y"], [["a b c d", "a b", "c d e f g"], ["x z w"]])
    brevity_penalty = math.exp(1 - 7 / 6)
    precisions = (5 / 6, 3 / 4, 1, 1)
    for n in range(1, 5):
        assert scores[n - 1] == pytest.approx(
            100 * brevity_penalty * math.prod(precisions[:n]) ** (1 / n)
        )
    for part in ("nrefs:var", "tok:none", "smooth:none"):
        assert part in scores.bleu_signature


def test_rouge_l_equals_hand_computed_value() -> None:
    """The common subsequences have 2, 2 and 3 words: precision is best with the last reference,
    recall with the first one. The second image has no common word."""
    references = [["a c", "a b x x x x", "x a x b x c"], ["q"]]
    scores = caption_scores(["a b c d", "p"], references)
    precision, recall = 3 / 4, 2 / 2
    best = 2.44 * precision * recall / (recall + 1.44 * precision)
    assert scores.rouge_l == pytest.approx(100 * best / 2)
    assert caption_scores(["b a"], ["a b"]).rouge_l == pytest.approx(50)


def test_case_and_punctuation_are_ignored() -> None:
    captions = ["A man's dog doesn't run.", "Two t-shirts !"]
    references = [["a man 's dog does n't run"], ["two t-shirts"]]
    scores = caption_scores(captions, references)
    assert scores[:5] == pytest.approx((100,) * 5)
    assert scores.cider == pytest.approx(1000 * (1 + 2 / 4) / 2)  # two words have no triples


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's (he thinks) 3.5 m, isn’t it?", "it s he thinks 3.5 m is n't it"),
        ("it 's he thinks 3.5 m , is n't it ?", "it s he thinks 3.5 m is n't it"),
        ("'Tis the dogs' o'clock - they’d", "tis the dogs o'clock they d"),
        ("  ... ", ""),
    ],
)
def test_caption_words(text: str, words: str) -> None:
    assert caption_words(text) == words.split()


def test_empty_captions() -> None:
    assert caption_scores(["", "..."], [["a dog"], ["", "a cat"]])[:6] == (0,) * 6
    scores = caption_scores(["", "a cat"], [["a dog"], ["", "a cat"]])
    assert scores.rouge_l == pytest.approx(50)
    assert scores.bleu1 == pytest.approx(100 * math.exp(1 - 4 / 2))
    assert caption_scores(["a"], [[""]])[:6] == (0,) * 6


def test_exact_match_accepts_any_reference() -> None:
    assert exact_match(["a b", "c", "d"], [["x", "a b"], "c", ["D"]]) == pytest.approx(200 / 3)
    assert exact_match(["a"], ["ab"]) == 0


@pytest.mark.parametrize("metric", [caption_scores, cider])
@refuses(
    (([], []), "at least one of each, got 0 captions, 0 references"),
    ((["a"], [["a"], ["b"]]), "got 1 captions, 2 references"),
    (("a", [["a"]]), "captions must be a list of strings, got one string"),
    ((["a", "b"], [["a"], []]), "text 1 must have at least one reference, got none"),
)
def test_invalid_arguments_raise(texts: tuple, metric: Any) -> None:
    metric(*texts)
