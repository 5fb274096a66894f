"""Corpora of sentences with one tag per word."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from attention_zoo.data import (
    TaggedSentences,
    check_tags,
    generate_orders,
    read_conll,
    read_tagged_tfds,
)
from attention_zoo.registry import Registry
from attention_zoo.tasks.corpora import Corpus, FileCorpus, GeneratedCorpus, TfdsCorpus

TAGGED_SENTENCES = Registry("data.corpus")


@dataclass
class SentenceCorpus(Corpus):
    """Base class of corpora of tagged sentences.

    Args:
        scheme: tagging scheme of spans: "BIO" (IOB2), "IOB1", "BIOES" or "BMES"; null for tags of
            single words, such as parts of speech.
        strict: reject sequences that violate the scheme, with file and line. False keeps them:
            they are scored as conlleval scores them, but a model constrained by the scheme
            cannot be trained on them.
        max_length: maximum number of words; training drops longer sentences and reports how many.
    """

    scheme: str | None = None
    strict: bool = True
    max_length: int = 256

    limits: ClassVar[tuple[str, ...]] = ("max_length",)

    def _read(self, split: str) -> TaggedSentences:
        sentences = self._sentences(split)
        if self.scheme is None:
            return sentences
        check_tags(sentences, self.scheme, strict=False)
        if self.strict:
            try:
                check_tags(sentences, self.scheme)
            except ValueError as error:
                raise ValueError(f"{error}, or set data.strict=false to keep it") from None
        return sentences

    @abstractmethod
    def _sentences(self, split: str) -> TaggedSentences:
        """Return the sentences of a known split, whose tags may violate the scheme."""


@TAGGED_SENTENCES.register("orders")
@dataclass
class Orders(GeneratedCorpus, SentenceCorpus):
    """Generated corpus of orders and returns; see `data.generate_orders`.

    Args:
        min_items, max_items: range of the number of items in a sentence.
    """

    corpus: str = "orders"
    scheme: str | None = "BIO"
    size: int = 5000
    test_size: int = 1000
    min_items: int = 1
    max_items: int = 6

    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", "long")

    def _sentences(self, split: str) -> TaggedSentences:
        return generate_orders(**self.generator_options(split, "min_items", "max_items"))


@TAGGED_SENTENCES.register("conll")
@dataclass
class Conll(FileCorpus, SentenceCorpus):
    """CoNLL files: one word and its tag per line, a blank line after each sentence.

    Args:
        words, tags: columns, counted from 0, or from -1 backwards.
        marks: column that marks words, such as predicates in semantic role labeling, or null.
        comment: prefix of lines to skip, or null.
    """

    corpus: str = "conll"
    words: int = 0
    tags: int = -1
    marks: int | None = None
    comment: str | None = None

    def _sentences(self, split: str) -> TaggedSentences:
        return read_conll(self.path(split), self.words, self.tags, self.marks, self.comment)


@TAGGED_SENTENCES.register("conll2003")
@dataclass
class Conll2003(TfdsCorpus, SentenceCorpus):
    """Prepared TensorFlow dataset of tagged words.

    Args:
        words, tags: names of its features: "tokens", and "ner", "pos" or "chunks".
    """

    corpus: str = "conll2003"
    scheme: str | None = "BIO"
    validation: str | None = "dev"
    name: str = "conll2003"
    words: str = "tokens"
    tags: str = "ner"

    def _sentences(self, split: str) -> TaggedSentences:
        return read_tagged_tfds(self.name, self.path(split), self.words, self.tags, self.data_dir)
