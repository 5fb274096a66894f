"""Corpora of a recipe: one dataclass of options per kind of corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from attention_zoo.data import (
    TextLines,
    TextPairs,
    generate_date_lines,
    generate_dates,
    generate_reports,
    read_jsonl,
    read_lines,
    read_parallel,
    read_tfds,
    read_tsv,
)
from attention_zoo.registry import Registry, did_you_mean

CORPORA = Registry("data.corpus")


@dataclass
class Corpus:
    """Base class of all corpora.

    Args:
        corpus: the kind, a name in `CORPORA`.
        split: the split that `attention-zoo evaluate` uses.
    """

    corpus: str = ""
    split: str = "test"

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")
    examples: ClassVar[str] = "examples"
    limits: ClassVar[tuple[str, ...]] = ()
    """Options that limit examples (lengths, image size); the task has attributes of these names."""
    switches: ClassVar[tuple[str, ...]] = ()
    """Boolean options that only some of the tasks with such examples support."""

    def __post_init__(self) -> None:
        for name in self.limits:
            if getattr(self, name) < 1:
                raise ValueError(f"data.{name} must be at least 1, got {getattr(self, name)}")

    def read(self, split: str) -> Any:
        """Return the examples of a split; raise ValueError if it is unknown or damaged."""
        if split not in self.splits:
            raise ValueError(
                f"data.split={split}: unknown split{did_you_mean(split, self.splits)}"
                f" (known: {', '.join(self.splits)})"
            )
        return self._read(split)

    def _read(self, split: str) -> Any:
        raise ValueError("data.corpus is missing; name one of " + ", ".join(CORPORA.names()))


@dataclass
class TextPairCorpus(Corpus):
    """Base class of corpora of source and target texts.

    Args:
        max_source_length, max_target_length: maximum number of tokens; training drops longer pairs
            and reports how many.
        cut_source: for summarization: truncate longer sources to `max_source_length` tokens instead
            of dropping the pairs.
    """

    max_source_length: int = 256
    max_target_length: int = 256
    cut_source: bool = False

    examples: ClassVar[str] = "pairs"
    limits: ClassVar[tuple[str, ...]] = ("max_source_length", "max_target_length")
    switches: ClassVar[tuple[str, ...]] = ("cut_source",)


@dataclass
class Pairs(TextPairCorpus):
    """Base class of corpora of pairs with a name for each side.

    Args:
        source, target: the languages, columns, fields or features to use as source and target.
    """

    source: str = ""
    target: str = ""

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            if not getattr(self, name):
                raise ValueError(f"data.{name} is missing; name the language, column or field")
        super().__post_init__()


@dataclass
class Lines(Corpus):
    """Base class of corpora of single texts.

    Args:
        max_length: maximum number of tokens; training drops longer texts and reports how many.
    """

    max_length: int = 256

    examples: ClassVar[str] = "lines"
    limits: ClassVar[tuple[str, ...]] = ("max_length",)


@CORPORA.register("dates")
@dataclass
class Dates(Pairs):
    """Generated corpus of dates, times and quantities; see `data.generate_dates`.

    Args:
        size, validation_size, test_size: sentences per split; `long` has `test_size` too.
        min_phrases, max_phrases: range of the number of phrases in one sentence.
        seed: seed of the generator.
    """

    corpus: str = "dates"
    source: str = "en"
    target: str = "fr"
    size: int = 20000
    validation_size: int = 500
    test_size: int = 1000
    min_phrases: int = 1
    max_phrases: int = 6
    seed: int = 1

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long")

    def _read(self, split: str) -> TextPairs:
        sizes = {"train": self.size, "validation": self.validation_size}
        return generate_dates(
            sizes.get(split, self.test_size),
            source=self.source,
            target=self.target,
            split=split,
            seed=self.seed,
            min_phrases=self.min_phrases,
            max_phrases=self.max_phrases,
        )


@CORPORA.register("reports")
@dataclass
class Reports(TextPairCorpus):
    """Generated corpus of reports and their summaries; see `data.generate_reports`.

    Args:
        size, validation_size, test_size: reports per split; `long` and `unseen` have
            `test_size` too.
        min_events, max_events: range of the number of events in a report; the summary has one
            sentence per event.
        seed: seed of the generator.
    """

    corpus: str = "reports"
    max_source_length: int = 400
    max_target_length: int = 100
    size: int = 20000
    validation_size: int = 500
    test_size: int = 500
    min_events: int = 1
    max_events: int = 3
    seed: int = 1

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long", "unseen")

    def _read(self, split: str) -> TextPairs:
        sizes = {"train": self.size, "validation": self.validation_size}
        size = sizes.get(split, self.test_size)
        return generate_reports(size, split, self.seed, self.min_events, self.max_events)


@CORPORA.register("date_lines")
@dataclass
class DateLines(Lines):
    """One language of the generated corpus of dates, times and quantities.

    Args:
        language: "en", "fr", "de" or "zh".
        size, validation_size, test_size: lines per split; `long` has `test_size` too.
        min_phrases, max_phrases: range of the number of phrases in one line.
        seed: seed of the generator.
    """

    corpus: str = "date_lines"
    language: str = "en"
    size: int = 20000
    validation_size: int = 500
    test_size: int = 1000
    min_phrases: int = 1
    max_phrases: int = 6
    seed: int = 1

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long")

    def _read(self, split: str) -> TextLines:
        sizes = {"train": self.size, "validation": self.validation_size}
        return generate_date_lines(
            sizes.get(split, self.test_size),
            language=self.language,
            split=split,
            seed=self.seed,
            min_phrases=self.min_phrases,
            max_phrases=self.max_phrases,
        )


@dataclass
class Files(Corpus):
    """Base class of corpora with one path per split.

    Args:
        train, validation, test: path of each split; None if there is no such split.
    """

    train: str | None = None
    validation: str | None = None
    test: str | None = None

    def path(self, split: str) -> str:
        """Return the path of a split; raise ValueError if the recipe does not name one."""
        path = getattr(self, split)
        if not path:
            raise ValueError(f"data.{split} is missing; name the file that holds this split")
        return str(path)


@CORPORA.register("tsv")
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


@CORPORA.register("jsonl")
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


@CORPORA.register("parallel")
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


@CORPORA.register("text")
@dataclass
class Text(Files, Lines):
    """Plain text files with one text per line; blank lines are skipped."""

    corpus: str = "text"

    def _read(self, split: str) -> TextLines:
        return read_lines(self.path(split))


@CORPORA.register("tfds")
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


def fits(corpus: Any, task: Any) -> bool:
    """Return whether a corpus has the limits and the kind of examples of a task."""
    return corpus.limits == task.limits and corpus.examples == getattr(
        task, "examples", corpus.examples
    )


def kinds_for(task: Any) -> list[str]:
    """Return the names of the corpora that fit a task, those that need no files first."""
    kinds: dict[str, Any] = {name: CORPORA.get(name) for name in CORPORA.names()}
    names = [name for name, kind in kinds.items() if fits(kind, task)]
    return sorted(names, key=lambda name: issubclass(kinds[name], Files))
