"""Tagged sentences, and a reader of column files as in the CoNLL shared tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from attention_zoo.data.examples import NumberedExamples
from attention_zoo.data.reading import decode_utf8, read_numbered_lines

MAX_SENTENCE_LENGTH = 1000
"""Maximum number of words of a file without blank lines; a longer file is rejected."""

UNMARKED = ("", "-", "_", "0", "O")
"""Cells of unmarked words in a column of marks."""

_DOCUMENT_START, _TOKEN_RANGE = "-DOCSTART-", re.compile(r"\d+[-.]\d+")


@dataclass(frozen=True)
class TaggedSentences(NumberedExamples):
    """Sentences as words, with one tag per word.

    Attributes:
        words: words of each sentence; none is empty.
        tags: tags of each sentence, one per word.
        origin: source of the data, for display and for saved results.
        marks: for each sentence, which words are marked (the predicate of semantic roles), or None.
        lines: first line of each sentence in its file; if None, sentences are counted from 1.
        word_lines: line of each word, or None.
        skipped: number of bad sentences that were skipped on request.
    """

    words: list[tuple[str, ...]]
    tags: list[tuple[str, ...]]
    origin: str
    marks: list[tuple[bool, ...]] | None = None
    lines: list[int] | None = None
    word_lines: list[tuple[int, ...]] | None = None
    skipped: int = 0

    columns = ("words", "tags", "marks", "lines", "word_lines")

    def __post_init__(self) -> None:
        super().__post_init__()
        for location, words, tags in zip(self.locations(), self.words, self.tags, strict=True):
            if len(words) != len(tags):
                raise ValueError(f"{location}: {len(words)} words but {len(tags)} tags")

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], ...]]:
        """Yield the words, the tags and the indices of marked words of each sentence."""
        marks = self.marks or [()] * len(self)
        for words, tags, word_marks in zip(self.words, self.tags, marks, strict=True):
            yield words, tags, tuple(str(index) for index, mark in enumerate(word_marks) if mark)

    @property
    def known_tags(self) -> list[str]:
        """All tags that occur, sorted."""
        return sorted({tag for tags in self.tags for tag in tags})

    def locate_word(self, row: int, word: int) -> str:
        """Return the location of a word, for messages; `row` and `word` are counted from 0."""
        if self.word_lines is not None:
            return f"{self.origin}:{self.word_lines[row][word]}"
        return f"{self.locations()[row]}, word {word + 1}"


def read_conll(
    path: str | Path,
    words: int = 0,
    tags: int = -1,
    marks: int | None = None,
    comment: str | None = None,
) -> TaggedSentences:
    """Read sentences from a file with one word per line and a blank line after each sentence.

    Columns are separated by tabs if the line contains one, otherwise by spaces. `-DOCSTART-` lines
    are skipped. If `words` is not 0, the first column is taken to contain word numbers, and the
    ranges and empty nodes of CoNLL-U (`3-4`, `8.1`) are skipped too.

    Args:
        path: the file, UTF-8, gzipped or not.
        words: column of the words, from 0, or from -1 backwards.
        tags: column of the tags.
        marks: column of the marks, or None. "-", "_", "0", "O" and empty cells mean unmarked.
        comment: prefix of the lines to skip: "#" for CoNLL-U. By default, no line is a comment,
            since a word may begin with any character.

    Raises:
        ValueError: a missing file, no sentences, invalid UTF-8, lines with different numbers of
            columns, a missing column, an empty word or tag, or more than `MAX_SENTENCE_LENGTH`
            words without a blank line (file:line).
    """
    sentences = list(_read_sentences(path, comment, has_numbers=words != 0))
    if not sentences:
        raise ValueError(f"{path}: contains no sentence; give one word and its tag per line")
    if len(sentences) == 1 and len(sentences[0]) > MAX_SENTENCE_LENGTH:
        location, _ = sentences[0][MAX_SENTENCE_LENGTH]
        raise ValueError(
            f"{location}: no blank line within the first {MAX_SENTENCE_LENGTH} words; put"
            " one after each sentence"
        )
    width = len(sentences[0][0][1])
    for location, cells in chain.from_iterable(sentences):
        _check_cells(location, cells, width, (words, tags, marks))

    def get_column(column: int) -> list[tuple[str, ...]]:
        return [tuple(cells[column] for _, cells in sentence) for sentence in sentences]

    word_marks = None
    if marks is not None:
        mark_cells = get_column(marks)
        word_marks = [tuple(cell.strip() not in UNMARKED for cell in cells) for cells in mark_cells]
    word_lines = [
        tuple(int(location.rpartition(":")[2]) for location, _ in sentence)
        for sentence in sentences
    ]
    lines = [numbers[0] for numbers in word_lines]
    return TaggedSentences(
        get_column(words), get_column(tags), str(path), word_marks, lines, word_lines
    )


Row = tuple[str, list[str]]  # `file:line` and the cells


def _read_sentences(
    path: str | Path, comment: str | None, has_numbers: bool
) -> Iterator[list[Row]]:
    """Yield the rows of each sentence."""
    sentence: list[Row] = []
    for location, raw in read_numbered_lines(path):
        text = decode_utf8(location, raw)
        if not text.strip():
            if sentence:
                yield sentence
            sentence = []
            continue
        cells = text.split("\t") if "\t" in text else text.split()
        is_comment = comment is not None and text.startswith(comment)
        is_range = has_numbers and _TOKEN_RANGE.fullmatch(cells[0])
        if not (is_comment or is_range or cells[0] == _DOCUMENT_START):
            sentence.append((location, cells))
    if sentence:
        yield sentence


def _check_cells(
    location: str, cells: list[str], width: int, columns: tuple[int | None, ...]
) -> None:
    if len(cells) != width:
        raise ValueError(
            f"{location}: expected {width} columns, as in the first word, got {len(cells)}; fix the"
            " line, or set comment to the prefix of comment lines"
        )
    for column in columns:
        if column is not None and not -width <= column < width:
            raise ValueError(
                f"{location}: has no column {column}, only {width} columns, counted from 0"
            )
    for column, name in zip(columns[:2], ("word", "tag"), strict=True):
        if column is not None and not cells[column].strip():
            raise ValueError(f"{location}: the {name} is empty")
