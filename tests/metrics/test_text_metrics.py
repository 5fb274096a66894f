"""BLEU, chrF and exact match on small cases, and metrics by length."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.metrics import LengthScore, bleu, by_length, chrf, exact_match
from tests.refusals import refuses

REFERENCES = ["The cat sat on the mat.", "Ein kleiner Hund läuft, sehr schnell!"]


def test_bleu_equals_hand_computed_value() -> None:
    """9 of 10 words match, 7 of 9 pairs, 5 of 8 triples, 3 of 7 quadruples."""
    hypothesis, reference = "a b c d x f g h i j", "a b c d e f g h i j"
    scores = bleu([hypothesis], [reference])
    expected = 100 * math.exp(sum(map(math.log, (9 / 10, 7 / 9, 5 / 8, 3 / 7))) / 4)
    assert scores.score == pytest.approx(expected)
    short_score = bleu(["a b c d e f"], [reference])
    assert short_score.score == pytest.approx(100 * math.exp(1 - 10 / 6))


def test_chinese_characters_are_single_tokens() -> None:
    references = ["他在星期一到。", "风筝是红色的。"]
    score = bleu(["他在星期一走。", "风筝是蓝色的。"], references)
    assert "tok:zh" in score.signature
    assert 10 < score.score < 90
    assert bleu(references, references).score == pytest.approx(100)
    assert "tok:13a" in bleu(["a 犬", "the cat"], ["a 犬", "the cat"]).signature
    assert "tok:13a" in bleu(["..."], ["..."]).signature


def test_bleu_is_cased_corpus_bleu_with_13a_tokens() -> None:
    assert bleu(REFERENCES, REFERENCES).score == pytest.approx(100)
    assert bleu([REFERENCES[0].replace(".", " .")], REFERENCES[:1]).score == pytest.approx(100)
    assert bleu([text.upper() for text in REFERENCES], REFERENCES).score < 10
    assert bleu(["something else entirely now", REFERENCES[1]], REFERENCES).score > 30
    signature = bleu(REFERENCES, REFERENCES).signature
    for length_score in ("nrefs:1", "case:mixed", "tok:13a", "smooth:exp", "version:"):
        assert length_score in signature


def test_chrf() -> None:
    assert chrf(REFERENCES, REFERENCES).score == pytest.approx(100)
    assert chrf(["zzz", "qqq"], REFERENCES).score == 0
    assert chrf(["The cat sat on the mats.", "Ein Hund"], REFERENCES).score > 30
    for length_score in ("nrefs:1", "nc:6", "nw:0", "case:mixed"):
        assert length_score in chrf(REFERENCES, REFERENCES).signature


def test_exact_match() -> None:
    assert exact_match(["a b", "c", "D", ""], ["a b", "c", "d", " "]) == 50.0


def test_by_length_puts_every_sentence_in_one_range() -> None:
    hypotheses, references = list("abcdef"), list("abcxyz")
    lengths = [1, 10, 11, 20, 41, 99]
    scores = by_length(exact_match, hypotheses, references, lengths, (10, 20, 40))
    assert scores == [
        LengthScore(0, 10, 2, 100.0),
        LengthScore(11, 20, 2, 50.0),
        LengthScore(41, None, 2, 0.0),
    ]
    assert by_length(exact_match, ["a"], ["a"], [3], ()) == [LengthScore(0, None, 1, 100.0)]
    scores = by_length(bleu, REFERENCES, REFERENCES, [6, 7], (6,))
    assert [length_score.value.score for length_score in scores] == pytest.approx([100, 100])


@pytest.mark.parametrize("metric", [bleu, chrf, exact_match])
@refuses(
    (["a", "b"], ["a"], "got 2 hypotheses, 1 references"),
    ([], [], "got 0 hypotheses, 0 references"),
    ("ab", ["a", "b"], "hypotheses must be a list of strings, got one string"),
    (["a", "b"], "ab", "references must be a list of strings, got one string"),
)
def test_invalid_arguments_raise(hypotheses: Any, references: Any, metric: Any) -> None:
    metric(hypotheses, references)


def test_by_length_rejects_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="1 hypotheses, 1 references, 2 lengths"):
        by_length(bleu, ["a"], ["a"], [1, 2], (10,))
    with pytest.raises(ValueError, match=r"edges must increase, got \[10, 10\]"):
        by_length(bleu, ["a"], ["a"], [1], (10, 10))


@pytest.mark.full
def test_sacrebleu_is_imported_lazily() -> None:
    code = "import sys, attention_zoo.metrics; sys.exit('sacrebleu' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=root).returncode == 0
