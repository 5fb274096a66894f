"""What is said twice, what stands in the source, and which names and figures are right."""

from __future__ import annotations

import pytest

from attention_zoo.metrics import (
    FactScore,
    copied_share,
    fact_score,
    facts,
    first_sentence,
    repeated_ngrams,
)


def test_repeated_ngrams_by_hand() -> None:
    """Of the 5 triples of the first text the last 2 stood before; the second text has 1."""
    texts = ["a b c a b c a", "a b c"]
    assert repeated_ngrams(texts) == pytest.approx(100 * 2 / 6)
    assert repeated_ngrams(texts, 1) == pytest.approx(100 * 4 / 10)
    assert repeated_ngrams(texts, 8) == 0
    assert repeated_ngrams([". A fire . A fire , a fire"], 2) == pytest.approx(100 * 3 / 5)
    assert repeated_ngrams(["so . A fire . So ends it"]) == 0
    assert repeated_ngrams([]) == 0
    with pytest.raises(ValueError, match="n is 0"):
        repeated_ngrams(texts, 0)
    with pytest.raises(ValueError, match="texts is one string"):
        repeated_ngrams("a b c")


def test_words_of_the_source_count_in_any_case_and_without_signs() -> None:
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
def test_facts(text: str, expected: list[str]) -> None:
    assert facts(text) == expected


def test_facts_are_scored_on_both_sides() -> None:
    """3 written, 4 expected, 2 right: one is written once too often, one is another's."""
    texts, references = ["in Tromak Tromak 12", "none"], ["in Tromak : 12 and 13", "of Sarno"]
    found = fact_score(texts, references)
    assert found.precision == pytest.approx(200 / 3)
    assert found.recall == pytest.approx(50)
    assert found.f1 == pytest.approx(400 / 7)
    assert fact_score(["x"], ["in Sarno"]) == FactScore(0.0, 0.0, 0.0)
    assert fact_score(["x"], ["y"]) == FactScore(100.0, 100.0, 100.0)
    with pytest.raises(ValueError, match="give at least one"):
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
