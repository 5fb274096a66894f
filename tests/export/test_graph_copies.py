"""Ids of copied words in the exported graph equal those of training and decode to the words."""

from __future__ import annotations

import pytest
import tensorflow as tf

from attention_zoo.data import encode_for_copying
from attention_zoo.data.tokenizers.tokenizer import WordTokenizer
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.export.graph_copies import GraphCopies
from tests.export.test_graph_tokenizer import lines, tokenizer

pytestmark = pytest.mark.usefixtures("character_tables")


@pytest.mark.parametrize(
    ("kind", "copies"),
    [("word", 0), ("word", 100), ("whitespace", 3), ("character", 3), ("subword", 3)],
)
def test_ids_equal_those_of_the_data(kind: str, copies: int) -> None:
    own, texts = tokenizer(kind, False), [*lines()[:300], "", " ".join(lines()[300:340])]
    ids, pieces, words = GraphCopies(own, copies).encode(tf.constant(texts))
    expected = encode_for_copying(own, texts, copies=copies)
    assert ids.to_list() == expected.sources
    assert [tuple(w.decode() for w in row) for row in words.to_list()] == expected.words
    assert [w.decode() for w in pieces[0].numpy()] == own.surfaces(texts[0])
    assert ids.dtype == tf.int32
    if copies == 3:
        past = {own.vocabulary_size + k for k in range(3)}
        assert {UNKNOWN, *past} <= set(ids.flat_values.numpy().tolist())


VOCABULARY = ["<pad>", "<unk>", "<s>", "</s>", "▁a", "▁saw", "▁."]


def test_words_are_numbered_text_by_text() -> None:
    """By hand: out-of-vocabulary words are numbered in each text, up to the limit."""
    texts = ["Ida saw Bo . Bo saw Ida .", "a Bo", "", "1 Bo", "Bo 1 Ida Bo"]
    ids, _, words = GraphCopies(WordTokenizer(VOCABULARY), 2).encode(tf.constant(texts))
    assert ids.to_list() == [[7, 5, 8, 6, 8, 5, 7, 6], [4, 7], [], [7, 8], [7, 8, UNKNOWN, 7]]
    assert [[w.decode() for w in row] for row in words.to_list()] == [
        ["▁Ida", "▁Bo"],
        ["▁Bo"],
        [],
        ["▁1", "▁Bo"],
        ["▁Bo", "▁1"],
    ]


def test_ids_are_decoded_to_words() -> None:
    graph = GraphCopies(WordTokenizer(VOCABULARY), 2)
    _, _, words = graph.encode(tf.constant(["a Ida", "Bo 1", "a a"]))
    ids = [[[7, 4, 5], [1, 7, 8]], [[7, 8, 6], [4, 4, 3]], [[7, 4, 5], [8, 8, 6]]]
    surfaces, labels = graph.decode(tf.constant(ids), words)
    texts = [[text.decode() for text in row] for row in graph.tokenizer.text(surfaces).numpy()]
    assert texts == [
        ["Ida a saw", "<unk> Ida <unk>"],
        ["Bo 1 .", "a a"],
        ["<unk> a saw", "<unk> <unk> ."],
    ]
    assert [label.decode() for label in labels.numpy()[:2, 0].ravel()] == [
        *("Ida", "a", "saw"),
        *("Bo", "1", "."),
    ]


@pytest.mark.parametrize("copies", [0, 2])
def test_no_texts_and_texts_without_words(copies: int) -> None:
    graph = GraphCopies(WordTokenizer(VOCABULARY), copies)
    for texts in ([], ["", " "], ["a", "saw ."]):
        ids, pieces, words = graph.encode(tf.constant(texts, "string"))
        assert ids.to_list() == WordTokenizer(VOCABULARY).encode(texts)
        assert ids.row_lengths().numpy().tolist() == pieces.row_lengths().numpy().tolist()
        assert words.to_list() == [[] for _ in texts]
        surfaces, labels = graph.decode(ids.to_tensor(), words)
        assert surfaces.shape == labels.shape == ids.to_tensor().shape


def test_other_tokenizers_raise() -> None:
    class OtherTokenizer(WordTokenizer):
        kind = "own"

    with pytest.raises(ValueError, match="tokenizer OtherTokenizer cannot be exported"):
        GraphCopies(OtherTokenizer(VOCABULARY), 2)
