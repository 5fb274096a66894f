"""Reader of tagged sentences in columns, as in the CoNLL shared tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from attention_zoo.data.reading import (
    BadRowSkipper,
    Line,
    Paths,
    decode_utf8,
    describe_paths,
    list_paths,
    read_numbered_lines,
)
from attention_zoo.data.text.tagged import TaggedSentences

MAX_SENTENCE_LENGTH = 1000
"""Maximum number of words of a file without blank lines; a longer file is rejected."""

UNMARKED = ("", "-", "_", "0", "O")
"""Cells of unmarked words in a column of marks."""

CONLLU_WIDTH = 10
"""Number of columns of CoNLL-U."""

RANGE_OR_EMPTY_NODE = re.compile(rb"[0-9]+[-.][0-9]+")
"""First cell of a line of CoNLL-U that is not a word: a range (`3-4`) or an empty node (`8.1`)."""

_DOCUMENT_START = re.compile(rb"-DOCSTART-([ \t]|$)")


def read_conll(
    path: Paths,
    words: int = 0,
    tags: int = -1,
    marks: int | None = None,
    comment: str | None = None,
    conllu: bool | None = None,
    skip_bad: int = 0,
) -> TaggedSentences:
    """Read sentences from a file with one word per line and a blank line after each sentence.

    Columns are separated by tabs if most lines of the file contain one, otherwise by spaces; no
    other white space separates columns or lines. `-DOCSTART-` lines between sentences are skipped.

    Args:
        path: the file, or a list of files; UTF-8, compressed or not.
        words: column of the words, from 0, or from -1 backwards.
        tags: column of the tags.
        marks: column of the marks, or None. "-", "_", "0", "O" and empty cells mean unmarked.
        comment: prefix of lines to skip. By default, no line is a comment, since a word may begin
            with any character.
        conllu: whether the file is CoNLL-U: the first column numbers the words of each sentence,
            and ranges (`3-4`), empty nodes (`8.1`) and lines that begin with "#" are skipped. By
            default, it is if the first column counts from 1 in most sentences, and `words` is
            another column.
        skip_bad: maximum number of sentences with a bad line to skip. More raise an error.

    Raises:
        ValueError: a missing file, no sentences, a missing column, `words` and `tags` are the same
            column, more than `MAX_SENTENCE_LENGTH` words without a blank line, or a bad line
            (file:line): invalid UTF-8, another number of columns than most lines have, an empty
            word or tag, or no word number in CoNLL-U.
    """
    columns, skipper = _Columns(words, tags, marks), BadRowSkipper(skip_bad)
    files: list[str] = []
    sentences: list[list[_Word]] = []
    for file in list_paths(path):
        blocks = list(_split_sentences(read_numbered_lines(file), comment))
        layout = _find_layout(blocks, columns, conllu)
        for block in blocks:
            with skipper:
                lines = [line for line in block if not layout.skips(line)]
                sentence = [_parse_word(line, layout, columns) for line in lines]
                if sentence:
                    files.append(file)
                    sentences.append(sentence)
    if not sentences:
        raise ValueError(
            f"{describe_paths(path)}: contains no sentence (bad sentences skipped:"
            f" {skipper.count}); give one word and its tag per line"
        )
    word_lines = [tuple(word.line for word in sentence) for sentence in sentences]
    return TaggedSentences(
        [tuple(word.text for word in sentence) for sentence in sentences],
        [tuple(word.tag for word in sentence) for sentence in sentences],
        describe_paths(path),
        None if marks is None else [tuple(word.is_marked for word in row) for row in sentences],
        [lines[0] for lines in word_lines],
        word_lines,
        skipper.count,
        files,
    )


class _Columns(NamedTuple):
    """Columns of the words, the tags and the marks, as the caller names them."""

    words: int
    tags: int
    marks: int | None


class _Word(NamedTuple):
    """A word, its tag, whether it is marked, and its line."""

    text: str
    tag: str
    is_marked: bool
    line: int


class _Layout(NamedTuple):
    """Format of a file.

    has_tabs: columns are separated by tabs instead of spaces.
    is_conllu: the first column has word numbers.
    width: number of columns.
    """

    has_tabs: bool
    is_conllu: bool
    width: int

    def skips(self, line: Line) -> bool:
        """Return whether a line of CoNLL-U contains no word."""
        is_comment = line[1].startswith(b"#")
        first = _split_cells(line, self.has_tabs)[0]
        return self.is_conllu and (is_comment or bool(RANGE_OR_EMPTY_NODE.fullmatch(first)))


def _split_sentences(lines: Iterable[Line], comment: str | None) -> Iterator[list[Line]]:
    """Yield the lines of each sentence, without comments and document starts."""
    sentence: list[Line] = []
    for location, raw in lines:
        is_comment = comment is not None and raw.startswith(comment.encode())
        if not raw.strip(b" \t"):
            if sentence:
                yield sentence
            sentence = []
        elif not is_comment and (sentence or not _DOCUMENT_START.match(raw)):
            sentence.append((location, raw))
    if sentence:
        yield sentence


def _split_cells(line: Line, has_tabs: bool) -> list[bytes]:
    if has_tabs:
        return [cell.strip(b" ") for cell in line[1].split(b"\t")]
    return re.split(rb"[ \t]+", line[1].strip(b" \t"))


def _find_layout(sentences: list[list[Line]], columns: _Columns, conllu: bool | None) -> _Layout:
    """Return the format that most lines of a file have.

    Raises ValueError if the file lacks a column or blank lines.
    """
    lines = [line for sentence in sentences for line in sentence]
    rows = [line for line in lines if not line[1].startswith(b"#")] or lines
    has_tabs = 2 * sum(b"\t" in raw for _, raw in rows) >= len(rows)
    if not rows:
        return _Layout(has_tabs, False, 0)
    if len(sentences) == 1 and len(rows) > MAX_SENTENCE_LENGTH:
        raise ValueError(
            f"{rows[MAX_SENTENCE_LENGTH][0]}: no blank line within the first"
            f" {MAX_SENTENCE_LENGTH} words; put one after each sentence"
        )
    width = Counter(len(_split_cells(line, has_tabs)) for line in rows).most_common(1)[0][0]
    _check_columns(rows[0][0], width, columns)
    is_numbered = 2 * sum(_is_numbered(row, has_tabs) for row in sentences) > len(sentences)
    is_first = columns.words in (0, -width)
    if is_first and (conllu or (conllu is None and is_numbered and width == CONLLU_WIDTH)):
        raise ValueError(
            f"{rows[0][0]}: column {columns.words} has the word numbers of CoNLL-U; set"
            " data.words=1 for the words, and data.tags=3 for their parts of speech"
        )
    is_conllu = is_numbered and not is_first if conllu is None else conllu
    return _Layout(has_tabs, is_conllu, width)


def _is_numbered(sentence: list[Line], has_tabs: bool) -> bool:
    """Return whether the first column counts from 1, apart from ranges and empty nodes."""
    lines = [line for line in sentence if not _Layout(has_tabs, True, 0).skips(line)]
    first = [_split_cells(line, has_tabs)[0] for line in lines]
    return first == [b"%d" % number for number in range(1, len(lines) + 1)]


def _check_columns(location: str, width: int, columns: _Columns) -> None:
    """Raise ValueError if a column is missing, or words and tags are the same column."""
    for name, column in columns._asdict().items():
        if column is not None and not -width <= column < width:
            raise ValueError(
                f"{location}: has no column {column}, only {width} columns, counted from 0; change"
                f" data.{name}"
            )
    if columns.words % width == columns.tags % width:
        fix = "name two columns"
        if width == 1:
            fix = "the file has only one; separate a word and its tag by a tab or spaces"
        raise ValueError(
            f"{location}: data.words={columns.words} and data.tags={columns.tags} are the same"
            f" column; {fix}"
        )


def _parse_word(line: Line, layout: _Layout, columns: _Columns) -> _Word:
    """Return the word of a line; raise ValueError if the line is bad."""
    location, raw = line
    decode_utf8(location, raw)
    cells = [cell.decode() for cell in _split_cells(line, layout.has_tabs)]
    if len(cells) != layout.width:
        raise ValueError(
            f"{location}: expected {layout.width} columns, as in most lines, got {len(cells)}; fix"
            " the line, or set data.comment to the prefix of comment lines"
        )
    if layout.is_conllu and not cells[0].isdecimal():
        raise ValueError(
            f"{location}: {cells[0]!r} is not a word number of CoNLL-U; fix the line, or set"
            " data.conllu=false"
        )
    word, tag = cells[columns.words], cells[columns.tags]
    for cell, name in ((word, "word"), (tag.strip(), "tag")):
        if not cell:
            raise ValueError(
                f"{location}: the {name} is empty; write one word and its tag per line"
            )
    is_marked = columns.marks is not None and cells[columns.marks] not in UNMARKED
    return _Word(word, tag, is_marked, int(location.rpartition(":")[2]))
