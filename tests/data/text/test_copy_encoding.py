"""Ids of unknown words, in order of first occurrence and shared with the target."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from attention_zoo.data import encode_for_copying, train_tokenizer
from tests.refusals import refuses

TEXTS = ["the fire in the old mill of", ". , 1 2 3"]
WORDS = train_tokenizer("word", TEXTS)
WHITESPACE = train_tokenizer("whitespace", TEXTS)
V = WORDS.vocabulary_size


def encode(tokenizer, text):
    (ids,) = tokenizer.encode([text])
    return ids


def test_ids_are_in_order_of_first_occurrence() -> None:
    source = "Tromak the fire Belvik in Tromak of Sarno"
    encoding = encode_for_copying(WORDS, [source], ["Sarno Belvik the Nemo Tromak"])
    the_id = encode(WORDS, "the")[0]
    fire_id, in_id, of_id = (encode(WORDS, f"{word}")[0] for word in ("fire", "in", "of"))
    assert encoding.sources == [[V, the_id, fire_id, V + 1, in_id, V, of_id, V + 2]]
    assert encoding.targets == [[V + 2, V + 1, the_id, 1, V]]
    assert encoding.words == [("▁Tromak", "▁Belvik", "▁Sarno")]


def test_at_most_copies_words_get_an_id() -> None:
    encoding = encode_for_copying(WORDS, ["A B C A"], ["C B A"], copies=2)
    assert encoding == ([[V, V + 1, 1, V]], [[1, V + 1, V]], [("▁A", "▁B")])
    without_copies = encode_for_copying(WORDS, ["A B C A"], ["C B A"], copies=0)
    assert without_copies == ([[1, 1, 1, 1]], [[1, 1, 1]], [()])


def test_ids_are_per_source_and_known_words_keep_theirs() -> None:
    encoding = encode_for_copying(WORDS, ["A the", "B A", "", "the"], ["A", "A the", "A", "B"])
    the_id = encode(WORDS, "the")[0]
    assert encoding.sources == [[V, the_id], [V, V + 1], [], [the_id]]
    assert encoding.targets == [[V], [V + 1, the_id], [1], [1]]
    assert encoding.words == [("▁A",), ("▁B", "▁A"), (), ()]


def test_words_with_equal_surfaces_have_one_id() -> None:
    lowercase = train_tokenizer("word", TEXTS, lowercase=True)
    assert encode_for_copying(lowercase, ["Tromak TROMAK"]).words == [("▁tromak",)]
    assert encode_for_copying(WORDS, ["Nemo (Nemo) Nemo"]).sources == [[V, V + 1, V + 2, V + 3, V]]
    encoding = encode_for_copying(WHITESPACE, ["the Nemo, Nemo 1,204"])
    assert encoding.words == [("▁Nemo,", "▁Nemo", "▁1,204")]


def test_sources_are_truncated_to_max_length() -> None:
    encoding = encode_for_copying(WORDS, ["A B C A"], ["C B A"], max_length=2)
    assert encoding == ([[V, V + 1]], [[1, V + 1, V]], [("▁A", "▁B")])
    assert encode_for_copying(WORDS, ["the A"], ["A"], max_length=1).targets == [[1]]


def test_without_targets_and_without_sources() -> None:
    assert encode_for_copying(WORDS, ["A"]) == ([[V]], [], [("▁A",)])
    assert encode_for_copying(WORDS, [], []) == ([], [], [])


@settings(max_examples=60, deadline=None)
@given(st.text("ab fireold.,1Z" + "\u3042", max_size=40), st.integers(0, 4))
def test_ids_decode_to_the_text(text: str, copies: int) -> None:
    """Extended ids are unknown tokens of the plain encoding, and name their surfaces."""
    for tokenizer in (WORDS, WHITESPACE):
        (ids,), _, (words,) = encode_for_copying(tokenizer, [text], copies=copies)
        size, expected = tokenizer.vocabulary_size, encode(tokenizer, text)
        assert [1 if token >= size else token for token in ids] == expected
        assert len(words) <= copies
        surfaces = tokenizer.surfaces(text)
        for token, surface in zip(ids, surfaces, strict=True):
            assert token < size or words[token - size] == surface
            assert token != 1 or (surface not in words and len(words) == copies)


@refuses(
    ((["a"],), {"copies": -1}, "copies must be at least 0, got -1"),
    ((["a"], ["a", "b"]), {}, "one target per source, got 1 sources and 2 targets"),
    (("a",), {}, "list of strings"),
)
def test_invalid_arguments_raise(texts: tuple, options: dict) -> None:
    encode_for_copying(WORDS, *texts, **options)
