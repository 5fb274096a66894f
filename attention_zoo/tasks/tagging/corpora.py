"""Corpora of sentences with one tag per word."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import ClassVar

from attention_zoo.data import (
    TaggedSentences,
    generate_orders,
    read_conll,
    read_tagged_tfds,
)
from attention_zoo.data.examples import ColumnFactory, Examples
from attention_zoo.data.reading import BadRowSkipper
from attention_zoo.data.text.tag_checks import find_tag_errors
from attention_zoo.registry import Registry
from attention_zoo.tasks.cached_corpora import CachedCorpus
from attention_zoo.tasks.corpora import Corpus, GeneratedCorpus, TfdsCorpus

TAGGED_SENTENCES = Registry("data.corpus")


@dataclass
class SentenceCorpus(Corpus):
    """Base class of corpora of tagged sentences.

    Args:
        scheme: tagging scheme of spans: "BIO" (or "IOB2"), "IOB1", "BIOES", "BILOU" or "BMES"; null
            for tags of single words, such as parts of speech.
        strict: reject sequences that violate the scheme, with file and line. False keeps them:
            they are scored as conlleval scores them, but a model constrained by the scheme
            cannot be trained on them.
        max_length: maximum number of words; training drops longer sentences and reports how many.
    """

    scheme: str | None = None
    strict: bool = True
    max_length: int = 256

    examples_class: ClassVar[type[Examples]] = TaggedSentences
    limits: ClassVar[tuple[str, ...]] = ("max_length",)

    def check(self, sentences: TaggedSentences, skip_bad: int | None = None) -> TaggedSentences:
        """Return the sentences without those that violate the scheme.

        Args:
            sentences: the sentences of a split.
            skip_bad: the option of that name; None for a corpus that does not have it.

        Raises:
            ValueError: more than `skip_bad` sentences are bad, with those already skipped.
        """
        if self.scheme is None:
            return sentences
        hint = ", or set data.strict=false to keep it" if self.strict else ""
        skipper, bad = BadRowSkipper(skip_bad or 0), set[int]()
        skipper.count = sentences.skipped
        for row, problem in find_tag_errors(sentences, self.scheme, self.strict):
            with nullcontext() if skip_bad is None else skipper:
                bad.add(row)
                raise ValueError(f"{problem}{hint}")
        rows = [row for row in range(len(sentences)) if row not in bad]
        if not rows:
            raise ValueError(
                f"{sentences.origin}: every sentence violates the scheme {self.scheme};"
                " set data.scheme to that of the corpus"
            )
        return replace(sentences.take(rows), skipped=skipper.count) if bad else sentences


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

    def _read(self, split: str) -> TaggedSentences:
        return self.check(
            generate_orders(**self.generator_options(split, "min_items", "max_items"))
        )


@TAGGED_SENTENCES.register("conll")
@dataclass
class Conll(CachedCorpus, SentenceCorpus):
    """CoNLL files: one word and its tag per line, a blank line after each sentence.

    Args:
        words, tags: columns, counted from 0, or from -1 backwards.
        marks: column that marks words, such as predicates in semantic role labeling, or null.
        comment: prefix of lines to skip, or null.
        conllu: the files are CoNLL-U, in which ranges, empty nodes and comments are skipped; null:
            if most sentences of a file have word numbers, see `data.read_conll`.
        skip_bad: maximum number of bad sentences to skip; one more is an error.
    """

    corpus: str = "conll"
    words: int = 0
    tags: int = -1
    marks: int | None = None
    comment: str | None = None
    conllu: bool | None = None
    skip_bad: int = 0

    def _read_files(self, split: str, column_factory: ColumnFactory) -> TaggedSentences:
        files, columns = self.find_files(split), (self.words, self.tags, self.marks)
        options = self.comment, self.conllu, self.skip_bad
        return self.check(read_conll(files, *columns, *options, column_factory), self.skip_bad)


@TAGGED_SENTENCES.register("conll2003")
@dataclass
class Conll2003(TfdsCorpus, SentenceCorpus):
    """Prepared TensorFlow dataset of tagged words.

    Args:
        words, tags: names of its features: "tokens", and "ner", "pos" or "chunks".
        skip_bad: maximum number of bad sentences to skip; one more is an error.
    """

    corpus: str = "conll2003"
    scheme: str | None = "BIO"
    validation: str | None = "dev"
    name: str = "conll2003"
    words: str = "tokens"
    tags: str = "ner"
    skip_bad: int = 0

    def _read(self, split: str) -> TaggedSentences:
        names = self.split_name(split), self.words, self.tags
        sentences = read_tagged_tfds(self.name, *names, self.folder, self.skip_bad)
        return self.check(sentences, self.skip_bad)
