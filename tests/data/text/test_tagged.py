"""Reader of tagged sentences in columns."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from attention_zoo.data.text.tagged import MAX_SENTENCE_LENGTH, TaggedSentences, read_conll
from tests.refusals import refuses

CONLLU = """\
# text = don't go
1-2\tdon't\t_\t_
1\tdo\tAUX\t-
2\tn't\tPART\t_
8.1\tgone\t_\t_
3\tgo\tVERB\tgo.01

1\t#\tSYM\t_
"""


def write_file(folder: Path, text: str | bytes) -> Path:
    path = folder / "file"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("tail", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("is_gzipped", [False, True])
def test_read_conll_reads_words_and_tags(
    tmp_path: Path, end: str, tail: str, is_gzipped: bool
) -> None:
    text = f"\ufeff-DOCSTART- O\n\nNew B-LOC\nYork I-LOC\n\n \nhe O{tail}".replace("\n", end)
    content = gzip.compress(text.encode()) if is_gzipped else text.encode()
    corpus = read_conll(write_file(tmp_path, content))
    assert corpus.words == [("New", "York"), ("he",)]
    assert corpus.tags == [("B-LOC", "I-LOC"), ("O",)]
    assert corpus.known_tags == ["B-LOC", "I-LOC", "O"]
    assert corpus.locations() == [f"{tmp_path / 'file'}:3", f"{tmp_path / 'file'}:7"]
    assert corpus.marks is None
    assert len(corpus) == 2


def test_columns_marks_and_skipped_rows_of_conllu(tmp_path: Path) -> None:
    corpus = read_conll(write_file(tmp_path, CONLLU), words=1, tags=2, marks=-1, comment="# ")
    assert corpus.words == [("do", "n't", "go"), ("#",)]
    assert corpus.tags == [("AUX", "PART", "VERB"), ("SYM",)]
    assert corpus.marks == [(False, False, True), (False,)]
    assert list(corpus) == [(corpus.words[0], corpus.tags[0], ("2",)), (("#",), ("SYM",), ())]


def test_words_may_contain_spaces_and_start_with_a_symbol(tmp_path: Path) -> None:
    corpus = read_conll(write_file(tmp_path, "a b\tO\n#tag\tB-x\n9-11\tB-x\n8.1\tO\n"))
    assert corpus.words == [("a b", "#tag", "9-11", "8.1")]


def test_take_keeps_line_numbers() -> None:
    corpus = TaggedSentences([("a",), ("b", "c"), ("d",)], [("O",), ("O", "X"), ("Y",)], "here")
    selected = corpus.take(iter([2, 1]))
    assert selected.words == [("d",), ("b", "c")]
    assert selected.locations() == ["here:3", "here:2"]
    assert selected.take([1]).locations() == ["here:2"]


@refuses(
    ("", {}, "/file: contains no sentence"),
    ("# a\n", {"comment": "#"}, "/file: contains no sentence"),
    ("a O\nb c O\n", {}, "/file:2: expected 2 columns, .*, got 3; fix the"),
    ("a O\n\nb\n", {}, "/file:3: expected 2 columns, .*, got 1"),
    ("a O\n", {"tags": 2}, "/file:1: has no column 2, only 2 columns, counted from 0"),
    ("a O\n", {"words": -3}, "/file:1: has no column -3, only 2 columns"),
    ("a\tO\n\tO\n", {}, "/file:2: the word is empty"),
    ("a\tO\nb\t\n", {}, "/file:2: the tag is empty"),
    (b"a O\ncaf\xe9 O\n", {}, "/file:2: not valid UTF-8 at byte 4"),
    (
        "a O\n" * (MAX_SENTENCE_LENGTH + 1),
        {},
        f"/file:{MAX_SENTENCE_LENGTH + 1}: no blank line within the first {MAX_SENTENCE_LENGTH}",
    ),
)
def test_invalid_files_raise(text: str | bytes, options: dict, tmp_path: Path) -> None:
    read_conll(write_file(tmp_path, text), **options)


def test_different_numbers_of_words_and_tags_raise() -> None:
    with pytest.raises(ValueError, match=r"here: .* per example, got 1 words, 0 tags"):
        TaggedSentences([("a",)], [], "here")
    with pytest.raises(ValueError, match="here:2: 1 words but 2 tags"):
        TaggedSentences([("a",), ("b",)], [("O",), ("O", "O")], "here")
