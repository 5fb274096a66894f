"""Corpora of single texts, for language modeling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attention_zoo.data import TextLines, generate_date_lines, read_lines
from attention_zoo.data.examples import ColumnFactory, Examples
from attention_zoo.data.synthetic.dates import LANGUAGES
from attention_zoo.registry import Registry, check_known
from attention_zoo.tasks.cached_corpora import CachedCorpus
from attention_zoo.tasks.corpora import Corpus, GeneratedPhrases

LINES = Registry("data.corpus")


@dataclass
class LineCorpus(Corpus):
    """Base class of corpora of single texts.

    Args:
        max_length: maximum number of tokens; training drops longer texts and reports how many.
    """

    max_length: int = 256

    examples_class: ClassVar[type[Examples]] = TextLines
    limits: ClassVar[tuple[str, ...]] = ("max_length",)


@LINES.register("date_lines")
@dataclass
class DateLines(GeneratedPhrases, LineCorpus):
    """One language of the generated corpus of dates, times and quantities.

    Args:
        language: "en", "fr", "de" or "zh".
    """

    corpus: str = "date_lines"
    language: str = "en"

    def _read(self, split: str) -> TextLines:
        check_known("data.language: unknown language", [self.language], LANGUAGES)
        options = self.generator_options(split, "language", "min_phrases", "max_phrases")
        return generate_date_lines(**options)


@LINES.register("text")
@dataclass
class Text(CachedCorpus, LineCorpus):
    """Plain text files with one text per line; blank lines are skipped.

    Args:
        skip_bad: maximum number of bad lines to skip; one more is an error.
    """

    corpus: str = "text"
    skip_bad: int = 0

    def _read_files(self, split: str, column_factory: ColumnFactory) -> TextLines:
        return read_lines(self.find_files(split), self.skip_bad, column_factory)
