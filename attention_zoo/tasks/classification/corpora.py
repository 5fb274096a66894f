"""Corpora of texts with class labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from attention_zoo.data import (
    LabelledTexts,
    TextFields,
    generate_reviews,
    read_labelled_csv,
    read_labelled_jsonl,
    read_labelled_tsv,
    read_text_folders,
    read_text_tfds,
)
from attention_zoo.data.examples import ColumnFactory, Examples
from attention_zoo.data.text.sentences import BOUNDARIES
from attention_zoo.registry import Registry, check_choice
from attention_zoo.tasks.cached_corpora import CachedCorpus
from attention_zoo.tasks.classification.class_weights import check_class_weights
from attention_zoo.tasks.corpora import Corpus, FileCorpus, GeneratedCorpus, TfdsCorpus

LABELLED_TEXTS = Registry("data.corpus")


@dataclass
class LabelledTextCorpus(Corpus):
    """Base class of corpora of texts with class labels.

    Args:
        max_length: maximum number of tokens of a text.
        max_sentences: maximum number of sentences of a text, for models of documents.
        max_sentence_length: maximum number of tokens of a sentence, for models of documents.
        truncate: truncate longer texts instead of dropping them in training and refusing them in
            evaluation.
        multi_label: a text has any number of classes, also none, instead of one.
        sentences: rule by which texts are split into sentences, for models of documents:
            "punctuation" or "lines", see `data.split_sentences`.
        class_weights: weights of the classes in the loss: null (all are 1), "balanced" (inversely
            proportional to their frequencies), or a mapping from class to positive number.
    """

    max_length: int = 512
    max_sentences: int = 128
    max_sentence_length: int = 64
    truncate: bool = True
    multi_label: bool = False
    sentences: str = "punctuation"
    class_weights: Any = None

    examples_class: ClassVar[type[Examples]] = LabelledTexts
    limits: ClassVar[tuple[str, ...]] = ("max_length", "max_sentences", "max_sentence_length")
    boolean_options: ClassVar[tuple[str, ...]] = ("truncate",)
    task_options: ClassVar[tuple[str, ...]] = ("sentences", "class_weights")

    def __post_init__(self) -> None:
        check_choice("data.sentences", self.sentences, BOUNDARIES)
        self.class_weights = check_class_weights(self.class_weights, "data.class_weights")
        super().__post_init__()


@LABELLED_TEXTS.register("reviews")
@dataclass
class Reviews(GeneratedCorpus, LabelledTextCorpus):
    """Generated corpus of reviews with one deciding sentence; see `data.generate_reviews`.

    Args:
        min_review_sentences, max_review_sentences: range of the number of sentences of a review
            outside of the split `long`, which has up to twice as many.
        max_train_review_sentences: maximum number of sentences of a review of the split `train`;
            null for max_review_sentences. In short reviews, models find the deciding sentence
            after fewer steps.
    """

    corpus: str = "reviews"
    max_length: int = 1000
    size: int = 10000
    test_size: int = 1000
    min_review_sentences: int = 5
    max_review_sentences: int = 40
    max_train_review_sentences: int | None = None

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long", "unseen")

    def __post_init__(self) -> None:
        self.get_part_range("train", "review_sentences")  # raises ValueError for an invalid range
        super().__post_init__()

    def _read(self, split: str) -> LabelledTexts:
        bounds = self.get_part_range(split, "review_sentences")
        return generate_reviews(
            self.size_of(split), split, self.seed, *bounds, multi_label=self.multi_label
        )


@dataclass
class NamedTextCorpus(LabelledTextCorpus):
    """Base class of corpora whose texts and classes are selected by name.

    Args:
        text, label: the columns, fields or features of the texts and of their classes.
    """

    text: str = "text"
    label: str = "label"

    def __post_init__(self) -> None:
        self.make_fields()  # raises ValueError for invalid names
        super().__post_init__()

    def make_fields(self) -> TextFields:
        """Return the names of the columns, fields or features."""
        return TextFields(self.text, self.label, self.multi_label, None)


@LABELLED_TEXTS.register("tsv")
@dataclass
class TsvTexts(CachedCorpus, NamedTextCorpus):
    """Tab-separated files; `text` and `label` are columns, see `data.read_labelled_tsv`.

    Args:
        label_separator: text between two classes of a cell, with `multi_label`.
        header: the first line contains the column names. Without it, columns are numbers from 0.
        skip_bad: maximum number of bad lines to skip; one more is an error.
    """

    corpus: str = "tsv"
    label_separator: str = "|"
    header: bool = True
    skip_bad: int = 0

    def make_fields(self) -> TextFields:
        """Return the names of the columns."""
        return TextFields(self.text, self.label, self.multi_label, self.label_separator)

    def _read_files(self, split: str, column_factory: ColumnFactory) -> LabelledTexts:
        files, fields = self.find_files(split), self.make_fields()
        return read_labelled_tsv(files, fields, self.skip_bad, self.header, column_factory)


@LABELLED_TEXTS.register("csv")
@dataclass
class CsvTexts(TsvTexts):
    """CSV files, in which cells may be quoted; see `data.read_labelled_csv`.

    Args:
        delimiter: the character between two cells.
    """

    corpus: str = "csv"
    delimiter: str = ","

    def _read_files(self, split: str, column_factory: ColumnFactory) -> LabelledTexts:
        files, options = self.find_files(split), (self.skip_bad, self.header, self.delimiter)
        return read_labelled_csv(files, self.make_fields(), *options, column_factory)


@LABELLED_TEXTS.register("jsonl")
@dataclass
class JsonlTexts(CachedCorpus, NamedTextCorpus):
    """JSON Lines files; `text` and `label` are field names, see `data.read_labelled_jsonl`.

    Args:
        skip_bad: maximum number of bad lines to skip; one more is an error.
    """

    corpus: str = "jsonl"
    skip_bad: int = 0

    def _read_files(self, split: str, column_factory: ColumnFactory) -> LabelledTexts:
        files, fields = self.find_files(split), self.make_fields()
        return read_labelled_jsonl(files, fields, self.skip_bad, column_factory)


@LABELLED_TEXTS.register("folder")
@dataclass
class TextFolders(FileCorpus, LabelledTextCorpus):
    """One folder per split, with a folder of `.txt` files for each class.

    Args:
        skip_bad: maximum number of bad files to skip; one more is an error.
    """

    corpus: str = "folder"
    skip_bad: int = 0

    def __post_init__(self) -> None:
        if self.multi_label:
            raise ValueError(
                "data.multi_label=true: a text in a folder has one class; use corpus csv, tsv,"
                " jsonl or tfds"
            )
        super().__post_init__()

    def _read(self, split: str) -> LabelledTexts:
        return read_text_folders(self.find_file(split), self.skip_bad)


@LABELLED_TEXTS.register("tfds")
@dataclass
class TfdsTexts(TfdsCorpus, NamedTextCorpus):
    """Prepared TensorFlow dataset of labelled texts, for example imdb_reviews.

    Args:
        skip_bad: maximum number of bad rows to skip; one more is an error.
    """

    corpus: str = "tfds"
    skip_bad: int = 0

    def _read(self, split: str) -> LabelledTexts:
        names = self.name, self.split_name(split), self.make_fields()
        return read_text_tfds(*names, self.folder, self.skip_bad)
