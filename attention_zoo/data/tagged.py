"""Sentences whose words have tags: files in columns, as those of the CoNLL tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attention_zoo.data.reading import decoded, numbered_lines

LONGEST = 1000
"""Words of a file without a blank line, above which they are not taken for one sentence."""

UNMARKED = ("", "-", "_", "0", "O")
"""What stands in a column of marks beside words that have none."""

_DOCUMENT, _PART = "-DOCSTART-", re.compile(r"\d+[-.]\d+")


@dataclass(frozen=True)
class TaggedSentences:
    """Sentences as words, each with a tag.

    Attributes:
        words: of each sentence; none is empty.
        tags: of each sentence, as many as it has words.
        origin: where they come from, to be shown and stored beside results.
        marks: of each sentence, which words are marked (the predicate of semantic roles), or None.
        lines: the line where each begins in the file that they come from; counted from 1 as
            sentences when None.
        word_lines: the line of each word, or None.
    """

    words: list[tuple[str, ...]]
    tags: list[tuple[str, ...]]
    origin: str
    marks: list[tuple[bool, ...]] | None = None
    lines: list[int] | None = None
    word_lines: list[tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        if len(self.words) != len(self.tags):
            raise ValueError(
                f"{self.origin}: {len(self.words)} sentences but tags of {len(self.tags)}"
            )
        for place, words, tags in zip(self.places(), self.words, self.tags, strict=True):
            if len(words) != len(tags):
                raise ValueError(f"{place}: {len(words)} words but {len(tags)} tags")

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], ...]]:
        """Words, tags and, if there are any, the numbers of marked words, of each sentence."""
        for row, (words, tags) in enumerate(zip(self.words, self.tags, strict=True)):
            marked = () if self.marks is None else _numbers(self.marks[row])
            yield words, tags, marked

    @property
    def known_tags(self) -> list[str]:
        """Every tag that occurs, in order."""
        return sorted({tag for tags in self.tags for tag in tags})

    def places(self) -> list[str]:
        """Where each sentence begins, for messages."""
        lines = self.lines or range(1, len(self) + 1)
        return [f"{self.origin}:{line}" for line in lines]

    def place(self, row: int, word: int) -> str:
        """Where a word of a sentence stands, for messages; both are counted from 0."""
        if self.word_lines is not None:
            return f"{self.origin}:{self.word_lines[row][word]}"
        return f"{self.places()[row]}, word {word + 1}"

    def take(self, rows: Iterable[int]) -> TaggedSentences:
        """The sentences of these rows, which keep their lines."""
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
    """Sentences of a file with a word a line and a blank line after each sentence.

    Columns are parted by tabs where a line has one, else by spaces. Lines of `-DOCSTART-` are left
    out; where words do not stand first, so are the ranges and empty nodes of CoNLL-U (`3-4`,
    `8.1`), for then numbers do.

    Args:
        path: the file, UTF-8, gzipped or not.
        words: the column of the words; from 0, or from -1 backwards.
        tags: that of the tags.
        marks: that of the marks, in which "-", "_", "0", "O" and nothing stand for none; or None.
        comment: what a line that is left out begins with: "#" for CoNLL-U. Without, no line is a
            comment, since a word may begin with anything.

    Raises:
        ValueError: no file, no sentence, invalid UTF-8, lines of unlike columns, a column that is
            not there, an empty word or tag, or many words and no blank line (file:line).
    """
    blocks = list(_blocks(path, comment, numbered=words != 0))
    if not blocks:
        raise ValueError(f"{path}: holds no sentence; give a word and its tag a line")
    if len(blocks) == 1 and len(blocks[0]) > LONGEST:
        where, _ = blocks[0][LONGEST]
        raise ValueError(f"{where}: no blank line before; put one after each sentence")
    width = len(blocks[0][0][1])
    found: list[list[tuple[str, ...]]] = []
    for block in blocks:
        for where, cells in block:
            _check(where, cells, width, (words, tags, marks))
        columns = list(zip(*(cells for _, cells in block), strict=True))
        found.append(columns)
    return TaggedSentences(
        [columns[words] for columns in found],
        [columns[tags] for columns in found],
        str(path),
        None if marks is None else [_marked(columns[marks]) for columns in found],
        [_line(block[0][0]) for block in blocks],
        [tuple(_line(where) for where, _ in block) for block in blocks],
    )


Row = tuple[str, list[str]]  # `file:line`, and the cells


def _blocks(path: str | Path, comment: str | None, numbered: bool) -> Iterator[list[Row]]:
    """The rows of each sentence."""
    block: list[Row] = []
    for where, raw in numbered_lines(path):
        text = decoded(where, raw)
        if not text.strip():
            if block:
                yield block
            block = []
            continue
        cells = text.split("\t") if "\t" in text else text.split()
        left_out = comment is not None and text.startswith(comment)
        part = numbered and _PART.fullmatch(cells[0])
        if not (left_out or part or cells[0] == _DOCUMENT):
            block.append((where, cells))
    if block:
        yield block


def _check(where: str, cells: list[str], width: int, wanted: tuple[int | None, ...]) -> None:
    if len(cells) != width:
        raise ValueError(
            f"{where}: {len(cells)} columns, but the first word has {width}; give every word the"
            " same columns, or name what comments begin with"
        )
    for column in wanted:
        if column is not None and not -width <= column < width:
            raise ValueError(f"{where}: has no column {column}, only {width}; they count from 0")
    for column, what in zip(wanted[:2], ("word", "tag"), strict=True):
        if column is not None and not cells[column].strip():
            raise ValueError(f"{where}: the {what} is empty")


def _line(where: str) -> int:
    return int(where.rpartition(":")[2])


def _marked(cells: tuple[str, ...]) -> tuple[bool, ...]:
    return tuple(cell.strip() not in UNMARKED for cell in cells)


def _numbers(marks: tuple[bool, ...]) -> tuple[str, ...]:
    return tuple(str(number) for number, marked in enumerate(marks) if marked)
