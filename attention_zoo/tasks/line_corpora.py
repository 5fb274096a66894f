"""Corpora of single texts, for language modeling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attention_zoo.data import TextLines, generate_date_lines, read_lines
from attention_zoo.registry import Registry
from attention_zoo.tasks.corpora import Corpus, Files, Generated

LINES = Registry("data.corpus")


@dataclass
class Lines(Corpus):
    """Base class of corpora of single texts.

    Args:
        max_length: maximum number of tokens; training drops longer texts and reports how many.
    """

    max_length: int = 256

    limits: ClassVar[tuple[str, ...]] = ("max_length",)


@LINES.register("date_lines")
@dataclass
class DateLines(Generated, Lines):
    """One language of the generated corpus of dates, times and quantities.

    Args:
        language: "en", "fr", "de" or "zh".
        min_phrases, max_phrases: range of the number of phrases in one line.
    """

    corpus: str = "date_lines"
    language: str = "en"
    size: int = 20000
    validation_size: int = 500
    test_size: int = 1000
    min_phrases: int = 1
    max_phrases: int = 6

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long")

    def _read(self, split: str) -> TextLines:
        return generate_date_lines(
            self.size_of(split),
            language=self.language,
            split=split,
            seed=self.seed,
            min_phrases=self.min_phrases,
            max_phrases=self.max_phrases,
        )


@LINES.register("text")
@dataclass
class Text(Files, Lines):
    """Plain text files with one text per line; blank lines are skipped."""

    corpus: str = "text"

    def _read(self, split: str) -> TextLines:
        return read_lines(self.path(split))
