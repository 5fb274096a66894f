"""Files in columns: what is a word, what parts sentences, and what is refused by file and line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from attention_zoo.data.text.tagged import LONGEST, TaggedSentences, read_conll
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


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "file"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("tail", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("zipped", [False, True])
def test_words_and_tags(tmp_path: Path, end: str, tail: str, zipped: bool) -> None:
    text = f"\ufeff-DOCSTART- O\n\nNew B-LOC\nYork I-LOC\n\n \nhe O{tail}".replace("\n", end)
    content = gzip.compress(text.encode()) if zipped else text.encode()
    found = read_conll(written(tmp_path, content))
    assert found.words == [("New", "York"), ("he",)]
    assert found.tags == [("B-LOC", "I-LOC"), ("O",)]
    assert found.known_tags == ["B-LOC", "I-LOC", "O"]
    assert found.places() == [f"{tmp_path / 'file'}:3", f"{tmp_path / 'file'}:7"]
    assert found.marks is None
    assert len(found) == 2


def test_any_columns_and_the_rows_that_are_no_words(tmp_path: Path) -> None:
    found = read_conll(written(tmp_path, CONLLU), words=1, tags=2, marks=-1, comment="# ")
    assert found.words == [("do", "n't", "go"), ("#",)]
    assert found.tags == [("AUX", "PART", "VERB"), ("SYM",)]
    assert found.marks == [(False, False, True), (False,)]
    assert list(found) == [(found.words[0], found.tags[0], ("2",)), (("#",), ("SYM",), ())]


def test_a_word_may_hold_spaces_between_tabs_and_begin_with_a_sign(tmp_path: Path) -> None:
    found = read_conll(written(tmp_path, "a b\tO\n#tag\tB-x\n9-11\tB-x\n8.1\tO\n"))
    assert found.words == [("a b", "#tag", "9-11", "8.1")]


def test_rows_are_taken_with_their_lines() -> None:
    three = TaggedSentences([("a",), ("b", "c"), ("d",)], [("O",), ("O", "X"), ("Y",)], "here")
    taken = three.take(iter([2, 1]))
    assert taken.words == [("d",), ("b", "c")]
    assert taken.places() == ["here:3", "here:2"]
    assert taken.take([1]).places() == ["here:2"]


@refuses(
    ("", {}, "/file: contains no sentence"),
    ("# a\n", {"comment": "#"}, "/file: contains no sentence"),
    ("a O\nb c O\n", {}, "/file:2: expected 2 columns, .*, got 3; fix the"),
    ("a O\n\nb\n", {}, "/file:3: expected 2 columns, .*, got 1"),
    ("a O\n", {"tags": 2}, "/file:1: has no column 2, only 2 columns, counted from 0"),
    ("a O\n", {"words": -3}, "/file:1: has no column -3, only 2 columns"),
    ("a\tO\n\tO\n", {}, "/file:2: the word is empty"),
    ("a\tO\nb\t\n", {}, "/file:2: the tag is empty"),
    (b"a O\ncaf\xe9 O\n", {}, "/file:2: not valid UTF-8 at byte 3"),
    ("a O\n" * (LONGEST + 1), {}, f"/file:{LONGEST + 1}: no blank line within the first {LONGEST}"),
)
def test_bad_files(text: str | bytes, options: dict, tmp_path: Path) -> None:
    read_conll(written(tmp_path, text), **options)


def test_sentences_of_unlike_sides_are_refused() -> None:
    with pytest.raises(ValueError, match=r"here: .*, got 0 tag sequences and 1 sentences"):
        TaggedSentences([("a",)], [], "here")
    with pytest.raises(ValueError, match="here:2: 1 words but 2 tags"):
        TaggedSentences([("a",), ("b",)], [("O",), ("O", "O")], "here")
