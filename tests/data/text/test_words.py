"""Splitting of text into words, with their positions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_zoo.data import Word, split_words
from attention_zoo.data.tokenizers.tokenizer import WHITE_SPACE

CASES = {
    "": [],
    " \t\n\u3000\u2028": [],
    "Ada wrote to Ben.": ["Ada", "wrote", "to", "Ben", "."],
    "don't stop, rock-'n'-roll": ["don't", "stop", ",", "rock", "-", "'", "n", "'", "-", "roll"],
    "a well‑known O’Neill": ["a", "well‑known", "O’Neill"],
    "1,000.50 at 12:30, 1990-95": ["1,000.50", "at", "12:30", ",", "1990-95"],
    "yes,no 1,a a:b 7:": ["yes", ",", "no", "1", ",", "a", "a", ":", "b", "7", ":"],
    "U.S. at www.example.org...": ["U.S", ".", "at", "www.example.org", ".", ".", "."],
    "'tis (e-mail) a--b": ["'", "tis", "(", "e-mail", ")", "a", "-", "-", "b"],
    "@ada_b #3 £5%": ["@", "ada_b", "#", "3", "£", "5", "%"],
    "東京のtower 한국어": ["東", "京", "の", "tower", "한국어"],
    "e\u0301-b か\u3099 हिन्दी": ["e\u0301-b", "か\u3099", "हिन्दी"],
    "می\u200cخواهم \u200fשלום": ["می\u200cخواهم", "שלום"],
    "hi👍🏽❤\ufe0f x": ["hi", "👍🏽", "❤\ufe0f", "x"],
    "👩\u200d👩\u200d👧👧": ["👩\u200d👩\u200d👧", "👧"],
    "a\x00b \ufeffc\u200bd▁e": ["a", "b", "c", "d", "e"],
    "\u0301a \u0301": ["\u0301", "a", "\u0301"],
}


@pytest.mark.parametrize("text", CASES)
def test_split_words(text: str) -> None:
    assert [word.text for word in split_words(text)] == CASES[text]


def test_spans_count_characters() -> None:
    assert split_words(" 😀 né à") == [Word("😀", 1, 2), Word("né", 3, 5), Word("à", 6, 7)]


CHARACTERS = st.sampled_from("abé1٣ .,:'’-_\t@日ー\u3099\u0301\u200d\u200c\u200b😀👩🏽½▁\n") | (
    st.characters(exclude_categories=["Cs"])
)


@settings(deadline=None)
@given(st.text(CHARACTERS, max_size=40))
def test_words_cover_all_visible_characters(text: str) -> None:
    words, end = split_words(text), 0
    for word in words:
        assert word.text == text[word.start : word.end] != ""
        assert end <= word.start
        assert not split_words(text[end : word.start])
        assert [word_again.text for word_again in split_words(word.text)] == [word.text]
        assert not re.search(f"[{WHITE_SPACE}]", word.text)
        end = word.end
    assert not split_words(text[end:])


def test_lone_surrogate_raises() -> None:
    with pytest.raises(ValueError, match="lone surrogate at character 3"):
        split_words("abc\ud800")


def test_long_words_are_not_split() -> None:
    assert split_words("a" * 100_000) == [Word("a" * 100_000, 0, 100_000)]
