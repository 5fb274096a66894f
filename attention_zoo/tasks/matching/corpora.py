"""Corpora of pairs of texts with class labels, numbers or relevance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attention_zoo.data import (
    LabelledPairs,
    PairFields,
    generate_claims,
    generate_ranked_claims,
    read_labelled_csv,
    read_labelled_jsonl,
    read_labelled_tsv,
    read_text_tfds,
)
from attention_zoo.data.examples import ColumnFactory, Examples
from attention_zoo.data.text.labelled_pairs import TARGETS
from attention_zoo.registry import Registry, check_choice
from attention_zoo.tasks.cached_corpora import CachedCorpus
from attention_zoo.tasks.corpora import Corpus, GeneratedCorpus, TfdsCorpus

LABELLED_PAIRS = Registry("data.corpus")


@dataclass
class LabelledPairCorpus(Corpus):
    """Base class of corpora of labelled pairs of texts.

    Args:
        max_first_length, max_second_length: maximum number of tokens of each text.
        truncate: truncate longer texts instead of dropping the pairs in training and refusing them
            in evaluation.
        target: what is predicted: "classification", "regression" (of a number, such as a
            similarity), or "ranking" of the candidates of a group.
    """

    max_first_length: int = 128
    max_second_length: int = 128
    truncate: bool = False
    target: str = "classification"

    examples_class: ClassVar[type[Examples]] = LabelledPairs
    limits: ClassVar[tuple[str, ...]] = ("max_first_length", "max_second_length")
    boolean_options: ClassVar[tuple[str, ...]] = ("truncate",)

    def __post_init__(self) -> None:
        check_choice("data.target", self.target, TARGETS)
        super().__post_init__()


@LABELLED_PAIRS.register("claims")
@dataclass
class Claims(GeneratedCorpus, LabelledPairCorpus):
    """Generated corpus of claims about small worlds; see `data.generate_claims`.

    With target "ranking", `size` is the number of questions, each with ten candidates; see
    `data.generate_ranked_claims`.

    Args:
        min_facts, max_facts: range of the number of facts of a premise outside of the split `long`,
            which has up to twice as many; not for a ranking.
        max_train_facts: maximum number of facts of a premise of the split `train`; null for
            max_facts. With few facts, models find the relevant one after fewer steps. Not for a
            ranking.
    """

    corpus: str = "claims"
    size: int = 20000
    test_size: int = 1000
    min_facts: int = 2
    max_facts: int = 6
    max_train_facts: int | None = None

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long")

    def __post_init__(self) -> None:
        if self.target == "regression":
            raise ValueError(
                "data.target=regression: corpus claims has targets classification and ranking"
            )
        self.get_part_range("train", "facts")  # raises ValueError for an invalid range
        super().__post_init__()

    def _read(self, split: str) -> LabelledPairs:
        if self.target == "ranking":
            return generate_ranked_claims(**self.generator_options(split))
        minimum, maximum = self.get_part_range(split, "facts")
        options = self.generator_options(split)
        return generate_claims(**options, min_facts=minimum, max_facts=maximum)


@dataclass
class NamedLabelledPairCorpus(LabelledPairCorpus):
    """Base class of corpora whose texts and labels are selected by name.

    Args:
        first, second: the columns, fields or features of the two texts; for a ranking, those of the
            question and of the candidate.
        label: column, field or feature of the classes, the scores or, for a ranking, the relevance:
            1 or 0.
        group: for a ranking, column, field or feature of the groups of candidates; null if
            candidates with equal first texts are a group.
        drop_unanswered: for a ranking, drop groups without a relevant candidate, which are
            otherwise an error, and count their pairs as skipped.
    """

    first: str = ""
    second: str = ""
    label: str = "label"
    group: str | None = None
    drop_unanswered: bool = False

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            if not vars(self)[name]:
                raise ValueError(f"data.{name} is missing; name the column, field or feature")
        self.make_fields()  # raises ValueError for invalid names
        super().__post_init__()

    def make_fields(self) -> PairFields:
        """Return the names of the columns, fields or features."""
        names = self.first, self.second, self.label, self.group
        return PairFields(*names, self.target, self.drop_unanswered)


@LABELLED_PAIRS.register("tsv")
@dataclass
class TsvPairs(CachedCorpus, NamedLabelledPairCorpus):
    """Tab-separated files with named columns; see `data.read_labelled_tsv`.

    Args:
        header: the first line contains the column names. Without it, columns are numbers from 0.
        skip_bad: maximum number of bad lines to skip; one more is an error.
    """

    corpus: str = "tsv"
    header: bool = True
    skip_bad: int = 0

    def _read_files(self, split: str, column_factory: ColumnFactory) -> LabelledPairs:
        files, fields = self.find_files(split), self.make_fields()
        return read_labelled_tsv(files, fields, self.skip_bad, self.header, column_factory)


@LABELLED_PAIRS.register("csv")
@dataclass
class CsvPairs(TsvPairs):
    """CSV files, in which cells may be quoted; see `data.read_labelled_csv`.

    Args:
        delimiter: the character between two cells.
    """

    corpus: str = "csv"
    delimiter: str = ","

    def _read_files(self, split: str, column_factory: ColumnFactory) -> LabelledPairs:
        files, options = self.find_files(split), (self.skip_bad, self.header, self.delimiter)
        return read_labelled_csv(files, self.make_fields(), *options, column_factory)


@LABELLED_PAIRS.register("jsonl")
@dataclass
class JsonlPairs(CachedCorpus, NamedLabelledPairCorpus):
    """JSON Lines files with named fields; see `data.read_labelled_jsonl`.

    Args:
        skip_bad: maximum number of bad lines to skip; one more is an error.
    """

    corpus: str = "jsonl"
    skip_bad: int = 0

    def _read_files(self, split: str, column_factory: ColumnFactory) -> LabelledPairs:
        files, fields = self.find_files(split), self.make_fields()
        return read_labelled_jsonl(files, fields, self.skip_bad, column_factory)


@LABELLED_PAIRS.register("tfds")
@dataclass
class TfdsPairs(TfdsCorpus, NamedLabelledPairCorpus):
    """Prepared TensorFlow dataset of labelled pairs of texts, for example glue/mrpc.

    Args:
        skip_bad: maximum number of bad rows to skip; one more is an error.
    """

    corpus: str = "tfds"
    skip_bad: int = 0

    def _read(self, split: str) -> LabelledPairs:
        names = self.name, self.split_name(split), self.make_fields()
        return read_text_tfds(*names, self.folder, self.skip_bad)
