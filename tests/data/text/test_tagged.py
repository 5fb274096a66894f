"""Reader of tagged sentences in columns."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from attention_zoo.data import TaggedSentences, read_conll
from attention_zoo.data.text import conll
from attention_zoo.data.text.conll import MAX_SENTENCE_LENGTH
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

WIDE = "# 1\n1\ta\tb" + "\t_" * 7 + "\n\n1\ta\tb" + "\t_" * 7 + "\n"


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


def test_numbers_are_words(tmp_path: Path) -> None:
    """A format is never inferred from one cell."""
    path = write_file(tmp_path, "It O\ncost O\n3.5 B-NUM\nmillion I-NUM\n")
    for words in (-2, 0):
        corpus = read_conll(path, words=words)
        assert corpus.words == [("It", "cost", "3.5", "million")]
        assert corpus.tags == [("O", "O", "B-NUM", "I-NUM")]
    rows = "CD\t3.5\tx\n1-2\t1-2\tx\n1.5\t1.5\tx\n\n1\ta\tx\n"
    assert read_conll(write_file(tmp_path, rows), words=1).words[0] == ("3.5", "1-2", "1.5")


@pytest.mark.parametrize("separator", ["\t", " "])
def test_conllu_is_recognized_by_most_sentences(tmp_path: Path, separator: str) -> None:
    """Comments are skipped too, and a bad line does not change the format of the others."""
    text = "\n\n".join([CONLLU, "x\ty\t_\t_", CONLLU]).replace("\t", separator)
    path = write_file(tmp_path, text)
    corpus = read_conll(path, words=1, tags=2, skip_bad=1)
    assert corpus.words == [("do", "n't", "go"), ("#",)] * 2
    assert corpus.skipped == 1
    one = write_file(tmp_path, "2-3\tab\tX\n2\ta\tY\n3\tb\tY\n")
    assert read_conll(one, words=1).words == [("ab", "a", "b")]
    assert read_conll(one, words=1, conllu=True).words == [("a", "b")]


SPACES = "\u00a0\u2028\x85\x0c\x1c\u3000"


@pytest.mark.parametrize("separator", ["\t", " ", "  "])
def test_only_spaces_tabs_and_line_feeds_separate(tmp_path: Path, separator: str) -> None:
    words = ("10\u00a0000", *(f"a{space}b" for space in SPACES), *SPACES)
    text = "".join(f"{word}{separator}O\n" for word in words)
    assert read_conll(write_file(tmp_path, text)).words == [words]


def test_skip_bad_drops_whole_sentences(tmp_path: Path) -> None:
    text = b"a O\n\nb O\nc\nd O\n\ncaf\xe9 O\n\ne O\n"
    path = write_file(tmp_path, text)
    with pytest.raises(ValueError, match=r"file:4: expected .*data\.skip_bad=1 or more"):
        read_conll(path)
    with pytest.raises(ValueError, match=r"file:7: not valid UTF-8.*data\.skip_bad=2 or more"):
        read_conll(path, skip_bad=1)
    corpus = read_conll(path, skip_bad=2)
    assert (corpus.words, corpus.skipped) == ([("a",), ("e",)], 2)


def test_several_files(tmp_path: Path) -> None:
    """Each file has its own format, and locations name the file."""
    for name, text in {"one": "a O\n\nb O", "two": "c\tO\nd e\tX\n"}.items():
        (tmp_path / name).write_text(text)
    corpus = read_conll([tmp_path / "one", str(tmp_path / "two")])
    assert corpus.words == [("a",), ("b",), ("c", "d e")]
    assert corpus.origin == f"{tmp_path / 'one'}, {tmp_path / 'two'}"
    assert corpus.locations() == [f"{tmp_path / x}" for x in ("one:1", "one:3", "two:1")]
    assert corpus.take([2]).locate_word(0, 1) == f"{tmp_path / 'two'}:2"
    with pytest.raises(ValueError, match="the list of files is empty"):
        read_conll([])


def test_take_keeps_line_numbers() -> None:
    corpus = TaggedSentences([("a",), ("b", "c"), ("d",)], [("O",), ("O", "X"), ("Y",)], "here")
    selected = corpus.take(iter([2, 1]))
    assert selected.words == [("d",), ("b", "c")]
    assert selected.locations() == ["here:3", "here:2"]
    assert selected.take([1]).locations() == ["here:2"]


def test_first_sentences_determine_the_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conll, "LAYOUT_BLOCKS", 2)
    path = write_file(tmp_path, "a\tX\n\nb\tY\n\n" + "c d\n\n" * 5)
    with pytest.raises(ValueError, match=r"file:5: expected 2 columns, as in most lines, got 1"):
        read_conll(path)
    sentences = read_conll(path, skip_bad=5)
    assert sentences.words == [("a",), ("b",)]
    assert sentences.skipped == 5


def test_blocks_without_sentences_do_not_determine_the_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conll, "LAYOUT_BLOCKS", 2)
    monkeypatch.setattr(conll, "MAX_SENTENCE_LENGTH", 3)
    path = write_file(tmp_path, "; a\n\n; b\n\n; c\n\n" + "a X\n" * 5 + "\nb Y\n\nc X\n")
    assert len(read_conll(path, comment=";")) == 3
    path = write_file(tmp_path, "; a\n\n; b\n\n" + "a X\n" * 5)
    with pytest.raises(ValueError, match=r"file:8: no blank line within the first 3 words"):
        read_conll(path, comment=";")


def test_lines_of_words(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a X\nb Y\n\nc X\n; note\nd Y\n")
    sentences = read_conll(path, comment=";")
    assert [sentences.locate_word(row, word) for row in (0, 1) for word in (0, 1)] == [
        f"{path}:{line}" for line in (1, 2, 4, 6)
    ]
    assert sentences.take([1]).locate_word(0, 1) == f"{path}:6"


@refuses(
    ("", {}, "/file: contains no sentence"),
    ("# a\n", {"comment": "#"}, "/file: contains no sentence"),
    ("a O\nb c O\n", {}, "/file:2: expected 2 columns, .*, got 3; fix the"),
    ("a O\n\nb\n", {}, "/file:3: expected 2 columns, .*, got 1"),
    ("a b O\nc O\nd O\n", {}, "/file:1: expected 2 columns, as in most lines, got 3"),
    ("a\tO\nb\tO\nNew York\n", {}, "/file:3: expected 2 columns, as in most lines, got 1"),
    ("Ida,PROPN\nlives,VERB\n", {}, r"/file:1: data\.words=0 and data\.tags=-1 are the same colu"),
    ("a x O\n", {"words": 1, "tags": -2}, "are the same column; name two columns"),
    (
        CONLLU.replace("# text", "# a"),
        {"words": 0, "conllu": True},
        r"of CoNLL-U; set data\.words=1",
    ),
    (WIDE, {}, r"/file:2: column 0 has the word numbers of CoNLL-U; set data\.words=1"),
    (CONLLU, {"words": 1, "conllu": False}, "/file:1: expected 4 columns, .* data.comment"),
    (
        CONLLU + "\nx\ty\t_\t_",
        {"words": 1, "comment": "#"},
        "/file:10: 'x' is not a word number of CoNLL-U",
    ),
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
