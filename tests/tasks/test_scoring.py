"""The report of an evaluation agrees with counting by hand."""

from __future__ import annotations

import pytest

from attention_zoo.tasks.scoring import score_translations


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


def test_no_sentence() -> None:
    with pytest.raises(ValueError, match="at least one"):
        score_translations([], [], [])
