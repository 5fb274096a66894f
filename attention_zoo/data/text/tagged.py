"""Tagged sentences, and a reader of column files as in the CoNLL shared tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attention_zoo.data.text.reading import decode_utf8, read_numbered_lines

MAX_SENTENCE_LENGTH = 1000
"""Maximum number of words of a file without blank lines; a longer file is rejected."""

UNMARKED = ("", "-", "_", "0", "O")
"""Cells of unmarked words in a column of marks."""

_DOCUMENT_START, _TOKEN_RANGE = "-DOCSTART-", re.compile(r"\d+[-.]\d+")


@dataclass(frozen=True)
class TaggedSentences:
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

    def __post_init__(self) -> None:
        if len(self.words) != len(self.tags):
            raise ValueError(
                f"{self.origin}: expected one tag sequence per sentence, got {len(self.tags)} tag"
                f" sequences and {len(self.words)} sentences"
            )
        for location, words, tags in zip(self.locations(), self.words, self.tags, strict=True):
            if len(words) != len(tags):
                raise ValueError(f"{location}: {len(words)} words but {len(tags)} tags")

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], ...]]:
        """Yield the words, the tags and the indices of marked words of each sentence."""
        for row, (words, tags) in enumerate(zip(self.words, self.tags, strict=True)):
            marked = () if self.marks is None else _get_marked_indices(self.marks[row])
            yield words, tags, marked

    @property
    def known_tags(self) -> list[str]:
        """All tags that occur, sorted."""
        return sorted({tag for tags in self.tags for tag in tags})

    def locations(self) -> list[str]:
        """Return the location of each sentence (`origin:line`), for messages."""
        lines = self.lines or range(1, len(self) + 1)
        return [f"{self.origin}:{line}" for line in lines]

    def locate_word(self, row: int, word: int) -> str:
        """Return the location of a word, for messages; `row` and `word` are counted from 0."""
        if self.word_lines is not None:
            return f"{self.origin}:{self.word_lines[row][word]}"
        return f"{self.locations()[row]}, word {word + 1}"

    def take(self, rows: Iterable[int]) -> TaggedSentences:
        """Return the sentences with indices `rows`, with their line numbers."""
        rows, lines = list(rows), self.lines or range(1, len(self) + 1)
        return TaggedSentences(
            [self.words[row] for row in rows],
            [self.tags[row] for row in rows],
            self.origin,
            None if self.marks is None else [self.marks[row] for row in rows],
            [lines[row] for row in rows],
            None if self.word_lines is None else [self.word_lines[row] for row in rows],
        )


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
    columns_by_sentence: list[list[tuple[str, ...]]] = []
    for sentence in sentences:
        for location, cells in sentence:
            _check_cells(location, cells, width, (words, tags, marks))
        columns = list(zip(*(cells for _, cells in sentence), strict=True))
        columns_by_sentence.append(columns)
    return TaggedSentences(
        [columns[words] for columns in columns_by_sentence],
        [columns[tags] for columns in columns_by_sentence],
        str(path),
        None
        if marks is None
        else [_parse_marks(columns[marks]) for columns in columns_by_sentence],
        [_get_line_number(sentence[0][0]) for sentence in sentences],
        [tuple(_get_line_number(location) for location, _ in sentence) for sentence in sentences],
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


def _get_line_number(location: str) -> int:
    return int(location.rpartition(":")[2])


def _parse_marks(cells: tuple[str, ...]) -> tuple[bool, ...]:
    return tuple(cell.strip() not in UNMARKED for cell in cells)


def _get_marked_indices(marks: tuple[bool, ...]) -> tuple[str, ...]:
    return tuple(str(number) for number, marked in enumerate(marks) if marked)
