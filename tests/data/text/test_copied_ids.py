"""Ids of unknown words: by first appearance in the source, shared with its target, at most C."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from attention_zoo.data import copied_ids, train_tokenizer
from tests.refusals import refuses

TEXTS = ["the fire in the old mill of", ". , 1 2 3"]
WORDS = train_tokenizer("word", TEXTS)
PARTS = train_tokenizer("whitespace", TEXTS)
V = WORDS.vocabulary_size


def known(tokenizer, text):
    (ids,) = tokenizer.encode([text])
    return ids


def test_words_have_numbers_by_their_first_place() -> None:
    source = "Tromak the fire Belvik in Tromak of Sarno"
    found = copied_ids(WORDS, [source], ["Sarno Belvik the Nemo Tromak"])
    the = known(WORDS, "the")[0]
    fire, inside, of = (known(WORDS, f"{word}")[0] for word in ("fire", "in", "of"))
    assert found.sources == [[V, the, fire, V + 1, inside, V, of, V + 2]]
    assert found.targets == [[V + 2, V + 1, the, 1, V]]
    assert found.words == [("▁Tromak", "▁Belvik", "▁Sarno")]


def test_no_more_than_copies_get_an_id() -> None:
    found = copied_ids(WORDS, ["A B C A"], ["C B A"], copies=2)
    assert found == ([[V, V + 1, 1, V]], [[1, V + 1, V]], [("▁A", "▁B")])
    none = copied_ids(WORDS, ["A B C A"], ["C B A"], copies=0)
    assert none == ([[1, 1, 1, 1]], [[1, 1, 1]], [()])


def test_each_source_has_its_own_and_known_words_keep_theirs() -> None:
    found = copied_ids(WORDS, ["A the", "B A", "", "the"], ["A", "A the", "A", "B"])
    the = known(WORDS, "the")[0]
    assert found.sources == [[V, the], [V, V + 1], [], [the]]
    assert found.targets == [[V], [V + 1, the], [1], [1]]
    assert found.words == [("▁A",), ("▁B", "▁A"), (), ()]


def test_a_word_is_the_same_where_its_surface_is() -> None:
    lower = train_tokenizer("word", TEXTS, lowercase=True)
    assert copied_ids(lower, ["Tromak TROMAK"]).words == [("▁tromak",)]
    assert copied_ids(WORDS, ["Nemo (Nemo) Nemo"]).sources == [[V, V + 1, V + 2, V + 3, V]]
    parted = copied_ids(PARTS, ["the Nemo, Nemo 1,204"])
    assert parted.words == [("▁Nemo,", "▁Nemo", "▁1,204")]


def test_what_lies_behind_the_longest_source_is_not_there() -> None:
    found = copied_ids(WORDS, ["A B C A"], ["C B A"], longest=2)
    assert found == ([[V, V + 1]], [[1, V + 1, V]], [("▁A", "▁B")])
    assert copied_ids(WORDS, ["the A"], ["A"], longest=1).targets == [[1]]


def test_no_targets_and_no_sources() -> None:
    assert copied_ids(WORDS, ["A"]) == ([[V]], [], [("▁A",)])
    assert copied_ids(WORDS, [], []) == ([], [], [])


@settings(max_examples=60, deadline=None)
@given(st.text("ab fireold.,1Z" + "\u3042", max_size=40), st.integers(0, 4))
def test_ids_say_what_the_text_says(text: str, copies: int) -> None:
    """Decoding with the words gives the text as far as they reach; nothing else differs."""
    for tokenizer in (WORDS, PARTS):
        (ids,), _, (words,) = copied_ids(tokenizer, [text], copies=copies)
        size, plain = tokenizer.vocabulary_size, known(tokenizer, text)
        assert [1 if token >= size else token for token in ids] == plain
        assert len(words) <= copies
        surfaces = tokenizer.surfaces(text)
        for token, surface in zip(ids, surfaces, strict=True):
            assert token < size or words[token - size] == surface
            assert token != 1 or (surface not in words and len(words) == copies)


@refuses(
    ((["a"],), {"copies": -1}, "copies=-1 must be at least 0"),
    ((["a"], ["a", "b"]), {}, "one target per source, got 1 sources and 2 targets"),
    (("a",), {}, "list of strings"),
)
def test_what_is_refused(texts: tuple, options: dict) -> None:
    copied_ids(WORDS, *texts, **options)
