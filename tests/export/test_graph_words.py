"""Words split in the exported graph equal those of `split_words`, with equal offsets."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_zoo.data import Word, split_words
from attention_zoo.export.graph_words import GraphWords
from tests.data.text.test_words import CASES

CHARACTERS = (
    "abéßñ1٣٤.,:;'’-‐‑_@#$()\t  \n日本ー々\u3099が한국어"
    "नमस्तेمیخواהשל\u0301\u0308\u200d\u200c\u200b\u200e"
    "😀👩👧🏽🇫🇷❤\ufe0f½€^▁\x00\x7f\x85\u00ad\ufeff\ufffd\ue000\U000e0041\U0003ffff々豈\uf900"
)


@functools.cache
def splitting() -> tf.types.experimental.GenericFunction:
    module = GraphWords()
    return tf.function(module.split, input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.fixture(scope="module", autouse=True)
def _built_once() -> None:
    """Compute the tables of Unicode characters."""
    splitting()


def split(texts: Sequence[str | bytes]) -> list[list[Word]]:
    words, starts, ends = splitting()(tf.constant(list(texts), "string"))
    assert starts.dtype == ends.dtype == tf.int32
    return [
        [Word(word.decode(), *offsets) for word, *offsets in zip(*row, strict=True)]
        for row in zip(words.to_list(), starts.to_list(), ends.to_list(), strict=True)
    ]


@pytest.mark.full
def test_words_by_hand() -> None:
    assert [[word.text for word in row] for row in split(CASES)] == list(CASES.values())


@pytest.mark.full
def test_random_texts() -> None:
    rng = np.random.default_rng(0)
    texts = [
        "".join(CHARACTERS[i] for i in rng.integers(len(CHARACTERS), size=size))
        for size in rng.integers(0, 40, 4000)
    ]
    assert split(texts) == [split_words(text) for text in texts]


@pytest.mark.full
def test_characters_of_all_unicode_blocks() -> None:
    code_points = [*range(0x3100), *range(0x3100, 0xD800, 161), *range(0xE000, 0x110000, 161)]
    for around in ("{}", "a{}a", "1{}1", "😀\u200d{}"):
        text = " ".join(around.format(chr(c)) for c in code_points)
        assert split([text]) == [split_words(text)]


@pytest.mark.full
@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_arbitrary_texts(texts: list[str]) -> None:
    assert split(texts) == [split_words(text) for text in texts]


@pytest.mark.parametrize("damaged", [b"a\xff b", b"\xe3\x81", b"x\xed\xa0\x80y"])
def test_invalid_utf_8_becomes_replacement_characters(damaged: bytes) -> None:
    """The number of U+FFFD is TensorFlow's, which can differ from Python's."""
    text = "".join(map(chr, tf.strings.unicode_decode(damaged, "UTF-8").numpy()))
    assert "\ufffd" in text
    assert split([damaged]) == [split_words(text)]


def test_no_texts() -> None:
    assert split([]) == []
    assert split([""]) == [[]]
