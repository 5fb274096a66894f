"""Corpora of source and target texts, for translation and summarization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attention_zoo.data import (
    TextPairs,
    generate_dates,
    generate_reports,
    read_jsonl,
    read_parallel,
    read_tfds,
    read_tsv,
)
from attention_zoo.registry import Registry
from attention_zoo.tasks.corpora import Corpus, Files, Generated

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

    limits: ClassVar[tuple[str, ...]] = ("max_source_length", "max_target_length")
    switches: ClassVar[tuple[str, ...]] = ("truncate_source",)


@dataclass
class Pairs(TextPairCorpus):
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
        super().__post_init__()


@TEXT_PAIRS.register("dates")
@dataclass
class Dates(Generated, Pairs):
    """Generated corpus of dates, times and quantities; see `data.generate_dates`.

    Args:
        min_phrases, max_phrases: range of the number of phrases in one sentence.
    """

    corpus: str = "dates"
    source: str = "en"
    target: str = "fr"
    size: int = 20000
    validation_size: int = 500
    test_size: int = 1000
    min_phrases: int = 1
    max_phrases: int = 6

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long")

    def _read(self, split: str) -> TextPairs:
        return generate_dates(
            self.size_of(split),
            source=self.source,
            target=self.target,
            split=split,
            seed=self.seed,
            min_phrases=self.min_phrases,
            max_phrases=self.max_phrases,
        )


@TEXT_PAIRS.register("reports")
@dataclass
class Reports(Generated, TextPairCorpus):
    """Generated corpus of reports and their summaries; see `data.generate_reports`.

    Args:
        min_events, max_events: range of the number of events in a report; the summary has one
            sentence per event.
    """

    corpus: str = "reports"
    max_source_length: int = 400
    max_target_length: int = 100
    size: int = 20000
    validation_size: int = 500
    test_size: int = 500
    min_events: int = 1
    max_events: int = 3

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long", "unseen")

    def _read(self, split: str) -> TextPairs:
        return generate_reports(
            self.size_of(split), split, self.seed, self.min_events, self.max_events
        )


@TEXT_PAIRS.register("tsv")
@dataclass
class Tsv(Files, Pairs):
    """Tab-separated files with a header line; `source` and `target` are column names.

    Args:
        skip_bad: maximum number of bad lines to skip; one more is an error.
    """

    corpus: str = "tsv"
    skip_bad: int = 0

    def _read(self, split: str) -> TextPairs:
        return read_tsv(self.path(split), self.source, self.target, skip_bad=self.skip_bad)


@TEXT_PAIRS.register("jsonl")
@dataclass
class Jsonl(Files, Pairs):
    """JSON Lines files; `source` and `target` are field names, see `data.read_jsonl`.

    Args:
        skip_bad: maximum number of bad lines to skip; one more is an error.
    """

    corpus: str = "jsonl"
    skip_bad: int = 0

    def _read(self, split: str) -> TextPairs:
        return read_jsonl(self.path(split), self.source, self.target, skip_bad=self.skip_bad)


@TEXT_PAIRS.register("parallel")
@dataclass
class Parallel(Files, Pairs):
    """Two line-aligned files per split; `{language}` in the path stands for source and target."""

    corpus: str = "parallel"

    def _read(self, split: str) -> TextPairs:
        path = self.path(split)
        if "{language}" not in path:
            raise ValueError(
                f"data.{split}={path} must contain {{language}} where the names of the two files"
                f" differ, as in data/{split}.{{language}}"
            )
        source, target = (path.replace("{language}", name) for name in (self.source, self.target))
        return read_parallel(source, target)


@TEXT_PAIRS.register("tfds")
@dataclass
class Tfds(Files, Pairs):
    """Prepared TensorFlow dataset (TFDS); train, validation and test are names of its splits.

    Args:
        name: name of the dataset, for example ted_hrlr_translate/pt_to_en.
        data_dir: folder of the prepared dataset; None is the default folder of TFDS.
        skip_bad: maximum number of rows with an empty field to skip; one more is an error.
    """

    corpus: str = "tfds"
    train: str | None = "train"
    validation: str | None = "validation"
    test: str | None = "test"
    name: str = ""
    data_dir: str | None = None
    skip_bad: int = 0

    def _read(self, split: str) -> TextPairs:
        if not self.name:
            raise ValueError("data.name is missing; name the TFDS data set")
        return read_tfds(
            self.name, self.path(split), self.source, self.target, self.data_dir, self.skip_bad
        )
