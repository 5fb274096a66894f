"""Metrics of summaries: repetition, copying, names and figures."""

from __future__ import annotations

import pytest

from attention_zoo.metrics import (
    FactScore,
    copied_share,
    extract_facts,
    fact_score,
    first_sentence,
    repeated_ngrams,
)


def test_repeated_ngrams_equal_hand_computed_values() -> None:
    """2 of the 5 trigrams of the first text are repetitions; the second text has 1 trigram."""
    texts = ["a b c a b c a", "a b c"]
    assert repeated_ngrams(texts) == pytest.approx(100 * 2 / 6)
    assert repeated_ngrams(texts, 1) == pytest.approx(100 * 4 / 10)
    assert repeated_ngrams(texts, 8) == 0
    assert repeated_ngrams([". A fire . A fire , a fire"], 2) == pytest.approx(100 * 3 / 5)
    assert repeated_ngrams(["so . A fire . So ends it"]) == 0
    assert repeated_ngrams([]) == 0
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        repeated_ngrams(texts, 0)
    with pytest.raises(ValueError, match="texts must be a list of strings, got one"):
        repeated_ngrams("a b c")


def test_copied_share_ignores_case_and_punctuation() -> None:
    sources = ["The Mill (of Tromak) burns.", "all is well"]
    assert copied_share(["mill in Tromak burns !", "well"], sources) == pytest.approx(80)
    assert copied_share(["", "."], sources) == 0
    with pytest.raises(ValueError, match="1 texts, 2 sources"):
        copied_share(["a"], sources)


FACTS = {
    "Fire in Tromak": ["Tromak"],
    "fire . Voters of Sarno choose 5310 .": ["Sarno", "5310"],
    "IBM buys iPad maker. The end": ["IBM", "iPad"],
    'He said "yes." Then Ann (of York), 3.5 m away, left!': ["Ann", "York", "3.5"],
    "- 'Tis so; Tis 12:30 -- it's 1,000?": ["Tis", "12:30", "1,000"],
    "élan in Élan": ["Élan"],
    "... 7": ["7"],
    "Mr. Smith and J. Doe left the U.S. Senate at 3.5. Then it rained. Is A? No": [
        *("Smith", "J", "Doe", "U.S", "Senate", "3.5", "A"),
    ],
    "": [],
}


@pytest.mark.parametrize(("text", "expected"), FACTS.items())
def test_extract_facts(text: str, expected: list[str]) -> None:
    assert extract_facts(text) == expected


def test_fact_score_equals_hand_computed_value() -> None:
    """3 generated, 4 expected, 2 correct; the repeated one counts once."""
    texts, references = ["in Tromak Tromak 12", "none"], ["in Tromak : 12 and 13", "of Sarno"]
    score = fact_score(texts, references)
    assert score.precision == pytest.approx(200 / 3)
    assert score.recall == pytest.approx(50)
    assert score.f1 == pytest.approx(400 / 7)
    assert fact_score(["x"], ["in Sarno"]) == FactScore(0.0, 0.0, 0.0)
    assert fact_score(["x"], ["y"]) == FactScore(100.0, 100.0, 100.0)
    with pytest.raises(ValueError, match="expected at least one of each"):
        fact_score([], [])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One is 3.5 m. Two", "One is 3.5 m."),
        (" Really? Yes", "Really?"),
        ("Dear Ann\nit is so. Bye", "Dear Ann"),
        ("A fire . B", "A fire ."),
        ("none", "none"),
        (" \n", ""),
    ],
)
def test_first_sentence(text: str, first: str) -> None:
    assert first_sentence(text) == first
