"""Tagged sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attention_zoo.data.examples import NumberedExamples


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
        files: file of each sentence; if None, all are from `origin`.
    """

    words: Sequence[tuple[str, ...]]
    tags: Sequence[tuple[str, ...]]
    origin: str
    marks: Sequence[tuple[bool, ...]] | None = None
    lines: Sequence[int] | None = None
    word_lines: Sequence[Sequence[int]] | None = None
    skipped: int = 0
    files: Sequence[str] | None = None

    columns = ("words", "tags", "marks", "lines", "word_lines", "files")

    def __post_init__(self) -> None:
        super().__post_init__()
        for row, (words, tags) in enumerate(zip(self.words, self.tags, strict=True)):
            if len(words) != len(tags):
                location = self.locations()[row]
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
            return f"{self.get_file(row)}:{self.word_lines[row][word]}"
        return f"{self.locations()[row]}, word {word + 1}"
