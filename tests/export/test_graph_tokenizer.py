"""Ids computed in the exported graph equal those of the tokenizer, in every script."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo.data import Tokenizer, train_tokenizer
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.export.graph_tokenizer import GraphTokenizer

pytestmark = pytest.mark.usefixtures("character_tables")

LINES = 10_000
SCRIPTS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHÄÖÜßéèçñıİ",
    "абвгдежзийклмнопрстуфхцчшщъыьэюяАБВГДЕЁ",
    "的一是不了人我在有他这为之大来以个中上们、。",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهويءآةىـ",
    "ΑΒΓΔΣσςαβγδ",
    "ひらがなカタカナー々〇",
)
SINGLES = (
    "0123456789.,;:!?'\"()-–—…€$%&@#<>/\\^~|+=_"
    + "😀👍🏽👩‍👩‍👧🇫🇷❤️✨\u200d\u0301\u00ad\ufeff\x00\x07"
)
SPACES = (" ", "  ", "\t", "\u00a0", "\u3000", "▁", "\r", " \u2009 ")


@functools.cache
def lines() -> list[str]:
    """Return lines of words in all scripts, mixed with all kinds of marks, spaces and symbols."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(LINES):
        script = SCRIPTS[rng.integers(len(SCRIPTS))]
        parts = [SPACES[rng.integers(len(SPACES))]] if rng.random() < 0.2 else []
        for _ in range(rng.integers(0, 9)):
            size = rng.integers(60, 140) if rng.random() < 0.01 else rng.integers(1, 9)
            parts += [script[i] for i in rng.integers(len(script), size=size)]
            if rng.random() < 0.4:
                parts.append(SINGLES[rng.integers(len(SINGLES))])
            if rng.random() < 0.8:
                parts.append(SPACES[rng.integers(len(SPACES))])
        lines.append("".join(parts))
    return lines


@functools.cache
def tokenizer(kind: str, lowercase: bool) -> Tokenizer:
    """Return a tokenizer for which some words of the lines are unknown."""
    count, size = {"subword": (60, 300), "whitespace": (3000, 2000)}.get(kind, (60, 100))
    return train_tokenizer(kind, lines()[:count], size, lowercase)


@pytest.mark.full
@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", ["subword", "word", "character", "whitespace"])
def test_ids_equal_the_tokenizer(kind: str, lowercase: bool) -> None:
    own = tokenizer(kind, lowercase)
    graph = GraphTokenizer(own)
    ids, pieces = tf.function(graph.encode)(tf.constant(lines()))
    expected = own.encode(lines())
    assert ids.to_list() == expected
    flat = np.concatenate(expected)
    assert 0.01 < np.mean(flat == UNKNOWN) < 0.99
    for row in range(0, LINES, 97):
        texts = [piece.decode() for piece in pieces[row].numpy()]
        assert texts == own.surfaces(lines()[row])


@pytest.mark.parametrize("kind", ["subword", "word", "character", "whitespace"])
def test_text_equals_the_tokenizer(kind: str) -> None:
    own = tokenizer(kind, False)
    graph = GraphTokenizer(own)
    rng = np.random.default_rng(1)
    ids = rng.integers(4, own.vocabulary_size, (50, 12))
    ids[rng.random(ids.shape) < 0.1] = UNKNOWN
    texts = graph.text(graph.surfaces(tf.constant(ids))).numpy()
    assert [text.decode() for text in texts] == [own.decode(row) for row in ids]
    labels = graph.labels(tf.constant(ids)).numpy()
    assert [[x.decode() for x in row] for row in labels] == [own.tokens(row) for row in ids]


@pytest.mark.parametrize("kind", ["subword", "word", "character", "whitespace"])
def test_no_text_and_empty_texts(kind: str) -> None:
    graph = GraphTokenizer(tokenizer(kind, True))
    for texts in ([], [""], ["", " ", "a", "▁▁"]):
        ids, _ = graph.encode(tf.constant(texts, "string"))
        assert ids.to_list() == tokenizer(kind, True).encode(texts)


def test_text_that_is_not_utf_8_is_read_as_replacement() -> None:
    graph = GraphTokenizer(tokenizer("character", False))
    ids, _ = graph.encode(tf.constant([b"a\xff b"]))
    assert ids.to_list() == tokenizer("character", False).encode(["a\ufffd b"])


def test_other_tokenizers_raise() -> None:
    class OtherTokenizer(Tokenizer):
        kind = "own"

    own = tokenizer("word", False)
    message = r"tokenizer OtherTokenizer cannot be exported \(known: character, "
    with pytest.raises(ValueError, match=message):
        GraphTokenizer(OtherTokenizer(own.vocabulary))
