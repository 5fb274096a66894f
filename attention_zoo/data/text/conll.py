"""Reader of tagged sentences in columns, as in the CoNLL shared tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from sys import intern
from typing import NamedTuple

from attention_zoo.data.examples import ColumnFactory, make_list
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

LAYOUT_BLOCKS = 2000
"""Number of sentences, at the start of a file, that determine its format."""

UNMARKED = ("", "-", "_", "0", "O")
"""Cells of unmarked words in a column of marks."""

CONLLU_WIDTH = 10
"""Number of columns of CoNLL-U."""

RANGE_OR_EMPTY_NODE = re.compile(r"[0-9]+[-.][0-9]+")
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
    column_factory: ColumnFactory = make_list,
) -> TaggedSentences:
    """Read sentences from a file with one word per line and a blank line after each sentence.

    The first `LAYOUT_BLOCKS` sentences of a file determine its format. Columns are separated by
    tabs if most of their lines contain one, otherwise by spaces; no other white space separates
    columns or lines. `-DOCSTART-` lines between sentences are skipped.

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
        column_factory: function from the name of a column to an empty column with the method
            `append`; by default, a list.

    Raises:
        ValueError: a missing file, no sentences, a missing column, `words` and `tags` are the same
            column, more than `MAX_SENTENCE_LENGTH` words without a blank line, or a bad line
            (file:line): invalid UTF-8, another number of columns than most lines of the first
            sentences have, an empty word or tag, or no word number in CoNLL-U.
    """
    columns, skipper = ConllColumns(words, tags, marks), BadRowSkipper(skip_bad)
    texts, tag_rows, lines, word_lines, files = map(
        column_factory, ("words", "tags", "lines", "word_lines", "files")
    )
    mark_rows = None if marks is None else column_factory("marks")
    for file in list_paths(path):
        blocks = split_blocks(read_numbered_lines(file), comment)
        first = _read_first_blocks(blocks)
        layout = find_layout(first, columns, conllu)
        for block in chain(first, blocks):
            with skipper:
                sentence = [parse_word(line, layout) for line in block.find_words(layout)]
                if sentence:
                    texts.append(tuple(intern(word.text) for word in sentence))
                    tag_rows.append(tuple(intern(word.tag) for word in sentence))
                    if mark_rows is not None:
                        mark_rows.append(tuple(word.is_marked for word in sentence))
                    lines.append(sentence[0].line)
                    word_lines.append(_list_lines(sentence))
                    files.append(file)
    if not texts:
        raise ValueError(
            f"{describe_paths(path)}: contains no sentence (bad sentences skipped:"
            f" {skipper.count}); give one word and its tag per line"
        )
    origin, skipped = describe_paths(path), skipper.count
    return TaggedSentences(texts, tag_rows, origin, mark_rows, lines, word_lines, skipped, files)


class ConllColumns(NamedTuple):
    """Columns of the words, the tags and the marks, as the caller names them.

    For words, None is column 1 of CoNLL-U and column 0 of other files.
    """

    words: int | None
    tags: int | None = None
    marks: int | None = None


class ConllWord(NamedTuple):
    """A word, its tag ("" without a column of tags), whether it is marked, and its `file:line`."""

    text: str
    tag: str
    is_marked: bool
    location: str

    @property
    def line(self) -> int:
        """Line number, from 1."""
        return int(self.location.rpartition(":")[2])


class ConllLayout(NamedTuple):
    """Format of a file.

    has_tabs: columns are separated by tabs instead of spaces.
    is_conllu: the first column has word numbers.
    width: number of columns.
    words, tags, marks: the columns that are read.
    """

    has_tabs: bool
    is_conllu: bool
    width: int
    words: int = 0
    tags: int | None = None
    marks: int | None = None

    def skips(self, line: Line) -> bool:
        """Return whether a line of CoNLL-U contains no word."""
        first = _split_cells(_decode_with_surrogates(line), self.has_tabs)[0]
        return line[1].startswith(b"#") or bool(RANGE_OR_EMPTY_NODE.fullmatch(first))


class ConllBlock(NamedTuple):
    """The lines between two blank lines: a sentence, comments and document starts.

    lines: all lines.
    rows: those that are neither comments nor document starts.
    """

    lines: list[Line]
    rows: list[Line]

    def find_words(self, layout: ConllLayout) -> list[Line]:
        """Return the lines with a word."""
        if not layout.is_conllu:
            return self.rows
        return [line for line in self.rows if not layout.skips(line)]


def _read_first_blocks(blocks: Iterator[ConllBlock]) -> list[ConllBlock]:
    """Return the blocks with the first `LAYOUT_BLOCKS` sentences, which determine the format."""
    first, count = list[ConllBlock](), 0
    for block in blocks:
        first.append(block)
        count += bool(block.rows)
        if count == LAYOUT_BLOCKS:
            return first
    _check_blank_lines(first)
    return first


def _list_lines(sentence: Sequence[ConllWord]) -> Sequence[int]:
    """Return the lines of the words; a range, which needs less memory, if they are consecutive."""
    lines = range(sentence[0].line, sentence[-1].line + 1)
    return lines if len(lines) == len(sentence) else tuple(word.line for word in sentence)


def split_blocks(lines: Iterable[Line], comment: str | None) -> Iterator[ConllBlock]:
    """Yield the blocks of a file, which blank lines separate."""
    block = ConllBlock([], [])
    prefix = None if comment is None else comment.encode()
    for line in lines:
        raw = line[1]
        if not raw.strip(b" \t"):
            if block.lines:
                yield block
            block = ConllBlock([], [])
            continue
        block.lines.append(line)
        is_comment = prefix is not None and raw.startswith(prefix)
        if not is_comment and (block.rows or not _DOCUMENT_START.match(raw)):
            block.rows.append(line)
    if block.lines:
        yield block


def _decode_with_surrogates(line: Line) -> str:
    """Decode a line; bytes that are not UTF-8 become surrogates, `parse_word` reports them."""
    return line[1].decode("utf-8", "surrogateescape")


def _split_cells(text: str, has_tabs: bool) -> list[str]:
    """Return the cells of a line that is not blank."""
    if has_tabs:
        return [cell.strip(" ") for cell in text.split("\t")]
    return [cell for cell in text.replace("\t", " ").split(" ") if cell]


def find_layout(
    blocks: Iterable[ConllBlock], columns: ConllColumns, conllu: bool | None
) -> ConllLayout:
    """Return the format that most lines have.

    Args:
        blocks: the first blocks of the file.
        columns: the columns to read.
        conllu: see `read_conll`.

    Raises:
        ValueError: the file lacks a column, words and tags are the same column, or `words` is the
            column of the word numbers.
    """
    sentences = [block.rows for block in blocks if block.rows]
    lines = [line for sentence in sentences for line in sentence]
    rows = [line for line in lines if not line[1].startswith(b"#")] or lines
    has_tabs = 2 * sum(b"\t" in raw for _, raw in rows) >= len(rows)
    if not rows:
        return ConllLayout(has_tabs, False, 0)
    widths = Counter(len(_split_cells(_decode_with_surrogates(line), has_tabs)) for line in rows)
    width = widths.most_common(1)[0][0]
    is_numbered = 2 * sum(_is_numbered(row, has_tabs) for row in sentences) > len(sentences)
    has_numbers = is_numbered and width == CONLLU_WIDTH if conllu is None else conllu
    words = int(has_numbers) if columns.words is None else columns.words
    columns = columns._replace(words=words)
    _check_columns(rows[0][0], width, columns)
    is_first = words in (0, -width)
    if is_first and has_numbers:
        raise ValueError(
            f"{rows[0][0]}: column {words} has the word numbers of CoNLL-U; set data.words=1 for"
            " the words, and data.tags=3 for their parts of speech"
        )
    is_conllu = is_numbered and not is_first if conllu is None else conllu
    return ConllLayout(has_tabs, is_conllu, width, words, columns.tags, columns.marks)


def _check_blank_lines(blocks: Sequence[ConllBlock]) -> None:
    """Raise ValueError for a long file without blank lines."""
    sentences = [block.rows for block in blocks if block.rows]
    rows = [line for line in sentences[0] if not line[1].startswith(b"#")] if sentences else []
    if len(sentences) == 1 and len(rows) > MAX_SENTENCE_LENGTH:
        raise ValueError(
            f"{rows[MAX_SENTENCE_LENGTH][0]}: no blank line within the first"
            f" {MAX_SENTENCE_LENGTH} words; put one after each sentence"
        )


def _is_numbered(sentence: list[Line], has_tabs: bool) -> bool:
    """Return whether the first column counts from 1, apart from ranges and empty nodes."""
    lines = [line for line in sentence if not ConllLayout(has_tabs, True, 0).skips(line)]
    first = [_split_cells(_decode_with_surrogates(line), has_tabs)[0] for line in lines]
    return first == [str(number) for number in range(1, len(lines) + 1)]


def _check_columns(location: str, width: int, columns: ConllColumns) -> None:
    """Raise ValueError if a column is missing, or words and tags are the same column."""
    for name, column in columns._asdict().items():
        if column is not None and not -width <= column < width:
            raise ValueError(
                f"{location}: has no column {column}, only {width} columns, counted from 0; change"
                f" data.{name}"
            )
    if columns.words is None or columns.tags is None:
        return
    if columns.words % width == columns.tags % width:
        fix = "name two columns"
        if width == 1:
            fix = "the file has only one; separate a word and its tag by a tab or spaces"
        raise ValueError(
            f"{location}: data.words={columns.words} and data.tags={columns.tags} are the same"
            f" column; {fix}"
        )


def parse_word(line: Line, layout: ConllLayout) -> ConllWord:
    """Return the word of a line; raise ValueError if the line is bad."""
    location, raw = line
    cells = _split_cells(decode_utf8(location, raw), layout.has_tabs)
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
    word, tag = cells[layout.words], "" if layout.tags is None else cells[layout.tags]
    has_tag = layout.tags is None or bool(tag.strip())
    if not word or not has_tag:
        name = "tag" if word else "word"
        raise ValueError(f"{location}: the {name} is empty; write one word and its tag per line")
    is_marked = layout.marks is not None and cells[layout.marks] not in UNMARKED
    return ConllWord(word, tag, is_marked, location)
