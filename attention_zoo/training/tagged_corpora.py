"""Corpora of sentences whose words have tags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from attention_zoo.data import (
    TaggedSentences,
    check_tags,
    generate_orders,
    read_conll,
    read_tagged_tfds,
)
from attention_zoo.training.corpora import CORPORA, Corpus, Files


@dataclass
class Sentences(Corpus):
    """Corpora of tagged sentences.

    Args:
        scheme: how tags mark spans: "BIO" (IOB2), "IOB1", "BIOES" or "BMES"; null where each tag is
            of its word alone, as parts of speech are.
        strict: refuse sequences that break the scheme, by file and line. False leaves them in:
            they are scored as conlleval scores them, but a model that the scheme constrains
            cannot be trained on them.
        max_length: most words of a sentence; training leaves longer ones out and says how many.
    """

    scheme: str | None = None
    strict: bool = True
    max_length: int = 256

    examples: ClassVar[str] = "sentences"
    limits: ClassVar[tuple[str, ...]] = ("max_length",)

    def _read(self, split: str) -> TaggedSentences:
        sentences = self._sentences(split)
        if self.scheme is not None:
            check_tags(sentences, self.scheme, strict=False)
        if self.scheme is not None and self.strict:
            try:
                check_tags(sentences, self.scheme)
            except ValueError as error:
                raise ValueError(f"{error}; data.strict=false leaves it in") from None
        return sentences

    def _sentences(self, split: str) -> Any:
        return super()._read(split)


@CORPORA.register("orders")
@dataclass
class Orders(Sentences):
    """The generated corpus of orders and returns; see `data.generate_orders`.

    Args:
        size, validation_size, test_size: sentences of the splits; `long` has `test_size` too.
        min_items, max_items: items of a sentence.
        seed: of the generator.
    """

    corpus: str = "orders"
    scheme: str | None = "BIO"
    size: int = 5000
    validation_size: int = 500
    test_size: int = 1000
    min_items: int = 1
    max_items: int = 6
    seed: int = 1

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long")

    def _sentences(self, split: str) -> TaggedSentences:
        sizes = {"train": self.size, "validation": self.validation_size}
        return generate_orders(
            sizes.get(split, self.test_size), split, self.seed, self.min_items, self.max_items
        )


@CORPORA.register("conll")
@dataclass
class Conll(Files, Sentences):
    """Files of a word a line, its tag in another column, and a blank line after each sentence.

    Args:
        words, tags: columns, counted from 0, or from -1 backwards.
        marks: the column that marks words, as the predicates of semantic roles, or null.
        comment: what a line begins with that is left out, or null.
    """

    corpus: str = "conll"
    words: int = 0
    tags: int = -1
    marks: int | None = None
    comment: str | None = None

    def _sentences(self, split: str) -> TaggedSentences:
        return read_conll(self.path(split), self.words, self.tags, self.marks, self.comment)


@CORPORA.register("conll2003")
@dataclass
class Conll2003(Files, Sentences):
    """A prepared TensorFlow data set of tagged words; train, validation and test name its splits.

    Args:
        name: of the set.
        words, tags: its features: "tokens", and "ner", "pos" or "chunks".
        data_dir: where it was prepared; None is TFDS's own folder.
    """

    corpus: str = "conll2003"
    scheme: str | None = "BIO"
    train: str | None = "train"
    validation: str | None = "dev"
    test: str | None = "test"
    name: str = "conll2003"
    words: str = "tokens"
    tags: str = "ner"
    data_dir: str | None = None

    def _sentences(self, split: str) -> TaggedSentences:
        return read_tagged_tfds(self.name, self.path(split), self.words, self.tags, self.data_dir)
