"""Sentences split in the exported graph equal those of `split_sentences`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_zoo.data import split_sentences
from attention_zoo.data.text.sentences import ABBREVIATIONS, BOUNDARIES
from attention_zoo.export.graph_sentences import GraphSentences
from tests.data.text.test_sentences import CASES, LONG
from tests.refusals import refuses

PARTS = [
    *("a", "Z", "I", "J.", "U.S.", "Mr", "e.g", "é", "É", "А.", "я", "ß", "1", "3.5", "_", "-"),
    *(".", "!", "?", "…", "...", ". . .", "。", "！", "？", "｡", "؟", "۔", "।", "‚", ","),
    *('"', "'", "”", "’", "“", "»", ")", "]", "}", "」", "』", "(", "[", "{", "«", "„", "—", "\\"),
    *(" ", "  ", "\t", "\n", "\r\n", "\r", "\x0b", "\x1c", "\x1f", "\x85", "\xa0", "\u1680"),
    *("\u2003", "\u2028", "\u2029", "\u202f", "\u3000", "\u200b", "\ufeff", "\x00", "\x7f", "▁"),
    *("好", "は", "😀", "\u0301", "\ufffd", "\ue000", "\ufffe", "\U0010ffff", "$", "^", "|", "*"),
    *(word.replace("\\", "") + ". " for word in ABBREVIATIONS[:6]),
]
TEXTS = st.lists(
    st.lists(st.sampled_from(PARTS) | st.characters(exclude_categories=["Cs"]), max_size=24).map(
        "".join
    ),
    max_size=24,
)


@functools.cache
def splitter(rule: str) -> GraphSentences:
    return GraphSentences(rule)


def split(texts: Sequence[str | bytes], rule: str = "punctuation") -> list[list[str]]:
    sentences = splitter(rule).split(tf.constant(list(texts), tf.string))
    assert sentences.dtype == tf.string
    return [[sentence.decode() for sentence in row] for row in sentences.to_list()]


@pytest.mark.parametrize("rule", sorted(BOUNDARIES))
def test_sentences_by_hand(rule: str) -> None:
    assert split(list(CASES), rule) == [split_sentences(text, rule) for text in CASES]
    if rule == "punctuation":
        assert split(list(CASES)) == list(CASES.values())


@settings(max_examples=10)
@given(TEXTS, st.sampled_from(sorted(BOUNDARIES)))
def test_arbitrary_texts(texts: list[str], rule: str) -> None:
    assert split(texts, rule) == [split_sentences(text, rule) for text in texts]


@pytest.mark.full
@settings(max_examples=1000)
@given(TEXTS, st.sampled_from(sorted(BOUNDARIES)))
def test_many_arbitrary_texts(texts: list[str], rule: str) -> None:
    assert split(texts, rule) == [split_sentences(text, rule) for text in texts]


@pytest.mark.full
@pytest.mark.parametrize("around", ["a. {}. b", "{}. A", "A.{} B", "A. {}B", "好{}好。{}"])
def test_characters_of_all_unicode_blocks(around: str) -> None:
    code_points = [*range(0x3100), *range(0x3100, 0xD800, 161), *range(0xE000, 0x110000, 161)]
    texts = [around.replace("{}", chr(c)) for c in code_points]
    assert split(texts) == [split_sentences(text) for text in texts]


@pytest.mark.full
@pytest.mark.parametrize("name", LONG)
def test_long_texts(name: str) -> None:
    text = LONG[name] * (1_000_000 // len(LONG[name])) + "x"
    assert split([text]) == [split_sentences(text)]


@pytest.mark.parametrize("damaged", [b"a\xff. B", b"\xe3\x80. C", b"x\xed\xa0\x80. Y", b"A.\xff B"])
def test_invalid_utf_8_becomes_replacement_characters(damaged: bytes) -> None:
    """The number of U+FFFD is TensorFlow's, which can differ from Python's."""
    text = "".join(map(chr, tf.strings.unicode_decode(damaged, "UTF-8").numpy()))
    assert "\ufffd" in text
    assert split([damaged]) == [split_sentences(text)]


def test_no_texts_and_blank_texts() -> None:
    assert split([]) == []
    assert split([""]) == [[]]
    assert split(["", "a. B", " \n", "C", ""]) == [[], ["a.", "B"], [], ["C"], []]


def test_ten_thousand_sentences() -> None:
    sentences = [f"Sentence {n} ends." for n in range(10_000)]
    assert split([" ".join(sentences)]) == [sentences]


class Served(tf.Module):
    def __init__(self) -> None:
        self.sentences = GraphSentences()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(self, texts: tf.Tensor) -> tf.Tensor:
        return self.sentences.split(texts).to_tensor("")


@pytest.mark.full
def test_saved_graph(tmp_path: Path) -> None:
    tf.saved_model.save(Served(), str(tmp_path))
    rows = tf.saved_model.load(str(tmp_path)).serve(tf.constant(list(CASES))).numpy()
    expected = list(CASES.values())
    assert [[text.decode() for text in row if text] for row in rows] == expected


@refuses(("line", "rule must be one of lines, punctuation, got 'line'; did you mean 'lines'?"))
def test_unknown_rules_raise(rule: str) -> None:
    GraphSentences(rule)
