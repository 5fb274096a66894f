"""Where the examples of a recipe come from: one dataclass of options a kind of corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attention_zoo.data import TextPairs, generate_dates, read_parallel, read_tfds, read_tsv
from attention_zoo.registry import Registry, did_you_mean

CORPORA = Registry("data.corpus")


@dataclass
class Corpus:
    """What every corpus has.

    Args:
        corpus: the kind, a name in `CORPORA`.
        source, target: which language, column or feature is translated into which.
        split: the split that `attention-zoo evaluate` reads.
        max_source_length, max_target_length: most tokens of a sentence; training leaves longer
            pairs out and says how many.
    """

    corpus: str = ""
    source: str = ""
    target: str = ""
    split: str = "test"
    max_source_length: int = 256
    max_target_length: int = 256

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            if not getattr(self, name):
                raise ValueError(f"data.{name} is missing; name the language or column")
        for name in ("max_source_length", "max_target_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"data.{name} must be at least 1, got {getattr(self, name)}")

    def read(self, split: str) -> TextPairs:
        """The pairs of a split; ValueError when there is none of that name or it is damaged."""
        if split not in self.splits:
            raise ValueError(
                f"data.split={split}: unknown split{did_you_mean(split, self.splits)}"
                f" (known: {', '.join(self.splits)})"
            )
        return self._read(split)

    def _read(self, split: str) -> TextPairs:
        raise ValueError("data.corpus is missing; name one of " + ", ".join(CORPORA.names()))


@CORPORA.register("dates")
@dataclass
class Dates(Corpus):
    """The generated corpus of dates, times and quantities; see `data.generate_dates`.

    Args:
        size, validation_size, test_size: sentences of the splits; `long` has `test_size` too.
        min_phrases, max_phrases: phrases chained into one sentence.
        seed: of the generator.
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


@dataclass
class Files(Corpus):
    """Corpora of one path a split.

    Args:
        train, validation, test: what holds each split; None where there is no such split.
    """

    train: str | None = None
    validation: str | None = None
    test: str | None = None

    def path(self, split: str) -> str:
        """What holds a split; ValueError when the recipe names nothing for it."""
        path = getattr(self, split)
        if not path:
            raise ValueError(f"data.{split} is missing; name the file that holds this split")
        return str(path)


@CORPORA.register("tsv")
@dataclass
class Tsv(Files):
    """Tab-separated files with a header line; `source` and `target` are columns.

    Args:
        skip_bad: bad lines to leave out before giving up.
    """

    corpus: str = "tsv"
    skip_bad: int = 0

    def _read(self, split: str) -> TextPairs:
        return read_tsv(self.path(split), self.source, self.target, skip_bad=self.skip_bad)


@CORPORA.register("parallel")
@dataclass
class Parallel(Files):
    """Two files a split, line by line: `{language}` in the path stands for source and target."""

    corpus: str = "parallel"

    def _read(self, split: str) -> TextPairs:
        path = self.path(split)
        if "{language}" not in path:
            raise ValueError(
                f"data.{split}={path}: write {{language}} where the two files' names differ,"
                f" as in data/{split}.{{language}}"
            )
        source, target = (path.replace("{language}", name) for name in (self.source, self.target))
        return read_parallel(source, target)


@CORPORA.register("tfds")
@dataclass
class Tfds(Files):
    """A prepared TensorFlow data set; train, validation and test name its splits.

    Args:
        name: for instance ted_hrlr_translate/pt_to_en.
        data_dir: where it was prepared; None is TFDS's own folder.
    """

    corpus: str = "tfds"
    train: str | None = "train"
    validation: str | None = "validation"
    test: str | None = "test"
    name: str = ""
    data_dir: str | None = None

    def _read(self, split: str) -> TextPairs:
        if not self.name:
            raise ValueError("data.name is missing; name the TFDS data set")
        return read_tfds(
            self.name, self.path(split), self.source, self.target, data_dir=self.data_dir
        )
