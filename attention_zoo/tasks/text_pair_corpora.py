"""Corpora of source and target texts, for translation and summarization."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from attention_zoo.data import (
    TextPairs,
    generate_dates,
    generate_reports,
    read_csv,
    read_jsonl,
    read_parallel,
    read_tfds,
    read_tsv,
)
from attention_zoo.data.examples import ColumnFactory, Examples
from attention_zoo.data.synthetic.dates import LANGUAGES
from attention_zoo.registry import Registry, check_known
from attention_zoo.tasks.cached_corpora import CachedCorpus
from attention_zoo.tasks.corpora import (
    Corpus,
    GeneratedCorpus,
    GeneratedPhrases,
    TfdsCorpus,
)
from attention_zoo.tasks.data_paths import find_files

TEXT_PAIRS = Registry("data.corpus")


@dataclass
class TextPairCorpus(Corpus):
    """Base class of corpora of source and target texts.

    Args:
        max_source_length, max_target_length: maximum number of tokens; training drops longer pairs
            and reports how many.
        truncate_source: for summarization: truncate longer sources to `max_source_length` tokens
            instead of dropping the pairs.
    """

    max_source_length: int = 256
    max_target_length: int = 256
    truncate_source: bool = False

    examples_class: ClassVar[type[Examples]] = TextPairs
    limits: ClassVar[tuple[str, ...]] = ("max_source_length", "max_target_length")
    boolean_options: ClassVar[tuple[str, ...]] = ("truncate_source",)


@dataclass
class NamedPairCorpus(TextPairCorpus):
    """Base class of text-pair corpora whose source and target are selected by name.

    Args:
        source, target: the languages, columns, fields or features to use as source and target.
    """

    source: str = ""
    target: str = ""

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            if not vars(self)[name]:
                raise ValueError(f"data.{name} is missing; name the language, column or field")
        if self.source == self.target:
            raise ValueError(
                f"data.source and data.target are both {self.source!r}; name two languages, columns"
                " or fields"
            )
        super().__post_init__()


@TEXT_PAIRS.register("dates")
@dataclass
class Dates(GeneratedPhrases, NamedPairCorpus):
    """Generated corpus of dates, times and quantities; see `data.generate_dates`."""

    corpus: str = "dates"
    source: str = "en"
    target: str = "fr"

    def _read(self, split: str) -> TextPairs:
        for name in ("source", "target"):
            check_known(f"data.{name}: unknown language", [vars(self)[name]], LANGUAGES)
        names = "source", "target", "min_phrases", "max_phrases"
        return generate_dates(**self.generator_options(split, *names))


@TEXT_PAIRS.register("reports")
@dataclass
class Reports(GeneratedCorpus, TextPairCorpus):
    """Generated corpus of reports and their summaries; see `data.generate_reports`.

    Args:
        min_events, max_events: range of the number of events in a report; the summary has one
            sentence per event.
    """

    corpus: str = "reports"
    max_source_length: int = 400
    max_target_length: int = 100
    size: int = 20000
    min_events: int = 1
    max_events: int = 3

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long", "unseen")

    def _read(self, split: str) -> TextPairs:
        return generate_reports(**self.generator_options(split, "min_events", "max_events"))


@TEXT_PAIRS.register("tsv")
@dataclass
class Tsv(CachedCorpus, NamedPairCorpus):
    """Tab-separated files; `source` and `target` are columns, see `data.read_tsv`.

    Args:
        header: the first line contains the column names. Without it, columns are numbers from 0.
        skip_bad: maximum number of bad lines to skip; one more is an error.
    """

    corpus: str = "tsv"
    header: bool = True
    skip_bad: int = 0

    def _read_files(self, split: str, column_factory: ColumnFactory) -> TextPairs:
        files, names = self.find_files(split), (self.source, self.target)
        return read_tsv(files, *names, self.skip_bad, self.header, column_factory)


@TEXT_PAIRS.register("csv")
@dataclass
class Csv(Tsv):
    """CSV files, in which cells may be quoted; see `data.read_csv`.

    Args:
        delimiter: the character between two cells.
    """

    corpus: str = "csv"
    delimiter: str = ","

    def _read_files(self, split: str, column_factory: ColumnFactory) -> TextPairs:
        files, options = self.find_files(split), (self.skip_bad, self.header, self.delimiter)
        return read_csv(files, self.source, self.target, *options, column_factory)


@TEXT_PAIRS.register("jsonl")
@dataclass
class Jsonl(CachedCorpus, NamedPairCorpus):
    """JSON Lines files; `source` and `target` are field names, see `data.read_jsonl`.

    Args:
        skip_bad: maximum number of bad lines to skip; one more is an error.
    """

    corpus: str = "jsonl"
    skip_bad: int = 0

    def _read_files(self, split: str, column_factory: ColumnFactory) -> TextPairs:
        names = self.source, self.target
        return read_jsonl(self.find_files(split), *names, self.skip_bad, column_factory)


@TEXT_PAIRS.register("parallel")
@dataclass
class Parallel(CachedCorpus, NamedPairCorpus):
    """Two line-aligned files per split; `{language}` in the path stands for source and target.

    Args:
        skip_bad: maximum number of pairs with a bad line to skip; one more is an error.
    """

    corpus: str = "parallel"
    skip_bad: int = 0

    def _find_sides(self, split: str) -> list[list[str]]:
        """Return the files of the sources and those of the targets."""
        key, paths = f"data.{split}", self.get_paths(split)
        for path in paths:
            if "{language}" not in path:
                raise ValueError(
                    f"{key}={path} must contain {{language}} where the names of the two files"
                    f" differ, as in data/{split}.{{language}}"
                )
        return [
            find_files(key, [path.replace("{language}", language) for path in paths])
            for language in (self.source, self.target)
        ]

    def find_files(self, split: str) -> list[str]:
        """Return the files of the sources, followed by those of the targets."""
        return [*chain.from_iterable(self._find_sides(split))]

    def _read_files(self, split: str, column_factory: ColumnFactory) -> TextPairs:
        sources, targets = self._find_sides(split)
        return read_parallel(sources, targets, self.skip_bad, column_factory)


@TEXT_PAIRS.register("tfds")
@dataclass
class Tfds(TfdsCorpus, NamedPairCorpus):
    """Prepared TensorFlow dataset of pairs of texts, for example ted_hrlr_translate/pt_to_en.

    Args:
        skip_bad: maximum number of rows with an empty field to skip; one more is an error.
    """

    corpus: str = "tfds"
    skip_bad: int = 0

    def _read(self, split: str) -> TextPairs:
        names = self.split_name(split), self.source, self.target
        return read_tfds(self.name, *names, self.folder, self.skip_bad)
