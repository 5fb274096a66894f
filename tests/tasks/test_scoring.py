"""Reports of evaluations equal those counted by hand."""

from __future__ import annotations

import pytest

from attention_zoo.tasks.scoring import score_summaries, score_translations


def test_groups_add_up() -> None:
    right, wrong = "the cat sat on the mat .", "a dog ran off with my hat !"
    report = score_translations([right, wrong, right], [right] * 3, [3, 10, 11])
    assert report["exact_match"] == pytest.approx(200 / 3)
    assert report["sentences"] == 3
    assert 0 < report["bleu"] < 100
    assert 0 < report["chrf"] < 100
    assert "tok:13a" in report["bleu_signature"]
    assert "nc:6" in report["chrf_signature"]
    first, second = report["by_source_length"]
    assert (first["from"], first["to"], first["sentences"]) == (0, 10, 2)
    assert first["exact_match"] == pytest.approx(50)
    assert (second["from"], second["to"], second["sentences"]) == (11, 20, 1)
    assert second["bleu"] == pytest.approx(100)
    assert second["exact_match"] == pytest.approx(100)


def test_empty_corpus() -> None:
    with pytest.raises(ValueError, match="at least one"):
        score_translations([], [], [])


def test_summaries_are_scored_by_the_best_reference_and_compared_with_the_lead() -> None:
    sources = ["All is well . Fire in Tromak hurts 12 .", "A storm comes . x y z x y z"]
    references = [("fire in Tromak hurts 12", "Tromak burns"), ("a storm comes",)]
    report = score_summaries(["Tromak burns", "x y z x y z"], references, sources)
    assert report["sentences"] == 2
    assert report["exact_match"] == 50
    assert report["rouge1"] == report["rougeL"] == pytest.approx(50)
    assert report["lead_rouge1"] == pytest.approx(50)
    assert report["facts_recall"] == 0  # a capital that begins a summary tells no name
    assert report["repeated_3grams"] == pytest.approx(25)
    assert report["copied_share"] == pytest.approx(100 * 7 / 8)
    named = {group["metric"]: (group["low"], group["high"]) for group in report["intervals"]}
    assert named["rouge1"] == (0, 100)
    assert report["reference_repeated_3grams"] == 0
    with pytest.raises(ValueError, match="at least one"):
        score_summaries([], [], [])


def test_lowercase_summaries_are_compared_in_lowercase() -> None:
    report = score_summaries(["fire in tromak"], [("Fire in Tromak",)], ["x"], cased=False)
    assert (report["exact_match"], report["rouge1"]) == (100, 100)
    assert not [name for name in report if name.startswith("facts")]
