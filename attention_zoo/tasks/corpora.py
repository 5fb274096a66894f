"""Base classes of corpora: the options of a recipe's `data` section, and the reader of examples."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from attention_zoo.registry import did_you_mean
from attention_zoo.tasks.data_paths import check_paths, find_files


@dataclass
class Corpus(ABC):
    """Base class of all corpora.

    Args:
        corpus: the name of the corpus in the task's `corpora`.
        split: the split that `attention-zoo evaluate` uses.
    """

    corpus: str = ""
    split: str = "test"

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")
    limits: ClassVar[tuple[str, ...]] = ()
    """Options that limit examples (lengths, image size); the task has attributes of these names."""
    boolean_options: ClassVar[tuple[str, ...]] = ()
    """Boolean options that only some of the tasks with such examples support."""
    task_options: ClassVar[tuple[str, ...]] = ()
    """Other options of the task, which do not change the examples."""
    generated: ClassVar[bool] = False
    """Whether the examples are generated, so that no licence restricts their use."""

    def __post_init__(self) -> None:
        for name in self.limits:
            if vars(self)[name] < 1:
                raise ValueError(f"data.{name} must be at least 1, got {vars(self)[name]}")

    def read(self, split: str) -> Any:
        """Return the examples of a split; raise ValueError if it is unknown or damaged."""
        if split not in self.splits:
            raise ValueError(
                f"data.split={split}: unknown split{did_you_mean(split, self.splits)}"
                f" (known: {', '.join(self.splits)})"
            )
        return self._read(split)

    @abstractmethod
    def _read(self, split: str) -> Any:
        """Return the examples of a known split."""


@dataclass
class GeneratedCorpus(Corpus):
    """Base class of generated corpora.

    Args:
        size, validation_size, test_size: examples per split; splits other than "train" and
            "validation" have `test_size`.
        seed: seed of the generator.
    """

    size: int = 10000
    validation_size: int = 500
    test_size: int = 500
    seed: int = 1

    generated: ClassVar[bool] = True

    def size_of(self, split: str) -> int:
        """Return the number of examples of a split."""
        return {"train": self.size, "validation": self.validation_size}.get(split, self.test_size)

    def generator_options(self, split: str, *names: str) -> dict[str, Any]:
        """Return the generator's arguments for a split, with the options of these names."""
        options = {name: vars(self)[name] for name in names}
        return {"size": self.size_of(split), "split": split, "seed": self.seed, **options}

    def get_part_range(self, split: str, parts: str) -> tuple[int, int]:
        """Return `min_{parts}`, and `max_{parts}` or, for "train", `max_train_{parts}` if set.

        Raises ValueError if `max_train_{parts}` is outside the range of the other splits.
        """
        options = vars(self)
        minimum, maximum = options[f"min_{parts}"], options[f"max_{parts}"]
        shorter = options[f"max_train_{parts}"]
        if shorter is None:
            return minimum, maximum
        if not minimum <= shorter <= maximum:
            raise ValueError(
                f"data.max_train_{parts} must be from min_{parts}={minimum} to"
                f" max_{parts}={maximum}, or null, got {shorter}"
            )
        return minimum, shorter if split == "train" else maximum


@dataclass
class FileCorpus(Corpus):
    """Base class of corpora with one file, or several files, per split.

    Args:
        train, validation, test: path of each split, or a list of paths, which are read in order;
            None if there is no such split. `~` is the home folder, and a path with `*` stands for
            all matching files, sorted. Relative paths start at the current folder.
    """

    train: Any = None
    validation: Any = None
    test: Any = None

    def __post_init__(self) -> None:
        for split in ("train", "validation", "test"):
            if vars(self)[split] is not None:
                check_paths(f"data.{split}", vars(self)[split])
        super().__post_init__()

    def read(self, split: str) -> Any:
        """Return the examples of a split; errors name the option with its path."""
        try:
            return super().read(split)
        except ValueError as error:
            key = "" if str(error).startswith("data.") else f"data.{split}: "
            raise ValueError(f"{key}{error}") from None

    def get_paths(self, split: str) -> list[str]:
        """Return the paths of a split as the recipe has them; raise ValueError if it has none."""
        paths = vars(self)[split]
        if not paths:
            raise ValueError(f"data.{split} is missing; name the file that holds this split")
        return check_paths(f"data.{split}", paths)

    def find_files(self, split: str) -> list[str]:
        """Return the files of a split; raise ValueError if one does not exist."""
        return find_files(f"data.{split}", self.get_paths(split))

    def find_file(self, split: str) -> str:
        """Return the only file of a split."""
        files = self.find_files(split)
        if len(files) > 1:
            raise ValueError(
                f"data.{split} must name one file or folder, got {len(files)}; corpus {self.corpus}"
                " cannot read several"
            )
        return files[0]


@dataclass
class TfdsCorpus(Corpus):
    """Base class of prepared TensorFlow datasets (TFDS).

    Args:
        train, validation, test: name of each split in the dataset; None if there is no such split.
        name: name of the dataset.
        data_dir: folder of the prepared dataset; None is the default folder of TFDS.
    """

    train: str | None = "train"
    validation: str | None = "validation"
    test: str | None = "test"
    name: str = ""
    data_dir: str | None = None

    def split_name(self, split: str) -> str:
        """Return the name of a split in the dataset."""
        if not self.name:
            raise ValueError("data.name is missing; name the TFDS data set")
        name = vars(self)[split]
        if not name:
            raise ValueError(f"data.{split} is missing; name the split of the data set")
        return str(name)

    @property
    def folder(self) -> str | None:
        """Folder of the prepared dataset, with the home folder in place of `~`."""
        return None if self.data_dir is None else os.path.expanduser(self.data_dir)


@dataclass
class GeneratedPhrases(GeneratedCorpus):
    """Base class of generated corpora of dates, times and quantities.

    Args:
        min_phrases, max_phrases: range of the number of phrases in one sentence.
    """

    size: int = 20000
    test_size: int = 1000
    min_phrases: int = 1
    max_phrases: int = 6

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long")
