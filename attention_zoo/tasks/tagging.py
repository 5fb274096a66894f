"""Tagging: predict a tag for each word of a sentence, and the spans that tags encode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np

from attention_zoo import models
from attention_zoo.data import (
    EncodedWords,
    TaggedBatches,
    TaggedSentences,
    Tokenizer,
    check_tags,
    load_tokenizer,
)
from attention_zoo.decoding import SearchOptions
from attention_zoo.metrics import read_spans, span_scores, tag_accuracy
from attention_zoo.registry import did_you_mean
from attention_zoo.tasks.answering import BUCKET, same_width, unknown_characters
from attention_zoo.tasks.one_text import SingleTextTask
from attention_zoo.tasks.sentences import Source, WordReader, Words, parted
from attention_zoo.tasks.tagged import Tagged, TagReading, answer
from attention_zoo.tasks.task import TASKS

FEW, OFTEN = 128, 16
"""The model is compiled only for more than FEW sentences, or after OFTEN calls of `predict`."""

Marked = Sequence[Sequence[int]] | None


@TASKS.register("tagging")
class Tagging(SingleTextTask):
    """Sequence tagging: a tagger, its tokenizer and its tag scheme.

    Each word is tokenized separately, and its first token gets its tag.

    Args:
        model: a `models.Tagger`.
        tokenizer: `data.Tokenizer` of any kind, or a public one.
        characters: tokenizer of kind "character" for a model with character input; `tokenizer` is
            then of kind "whitespace", with whole words as tokens.
        search: only `n_best` and `batch_size` are used; decoding is exact.
        max_length: maximum number of words of a sentence. Training drops longer sentences;
            `predict` and `evaluate` reject them.
        scheme: tag scheme of spans: "BIO" (IOB2), "IOB1", "BIOES", "BMES"; None for tags alone.

    Raises:
        ValueError: if the model is not a `models.Tagger`, its inputs do not fit the tokenizers, or
            a tag is not in the scheme.
    """

    name: ClassVar[str] = "tagging"
    examples: ClassVar[str] = "sentences"
    reads: ClassVar[str] = "whitespace"

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        characters: Tokenizer | None = None,
        search: SearchOptions | None = None,
        max_length: int = 256,
        scheme: str | None = None,
    ) -> None:
        if not isinstance(model, models.Tagger):
            raise ValueError(f"model must be a models.Tagger, got {type(model).__name__}")
        super().__init__(model, tokenizer, search, max_length)
        self.characters, self.scheme = characters, scheme
        self._reader = WordReader(tokenizer, characters)
        self._check_tokenizers()
        if scheme is not None:
            read_spans(self.tags, scheme)  # raises ValueError for tags outside the scheme
        self._calls = 0
        self._readings: dict[tuple[Any, ...], TagReading] = {}

    def _check_tokenizers(self) -> None:
        """Raise ValueError if the tokenizers do not fit the inputs of the model."""
        read = self.model.characters
        if (read is None) != (self.characters is None):
            given = "not given" if self.characters is None else "given"
            reads = "takes no characters" if read is None else "takes characters"
            raise ValueError(f"the model {reads}, but the character tokenizer is {given}")
        sizes = [(self.tokenizer, self.model.vocabulary_size, "tokens")]
        if self.characters is not None:
            sizes.append((self.characters, read["vocabulary_size"], "characters"))
            for one, kind in ((self.tokenizer, "whitespace"), (self.characters, "character")):
                if getattr(one, "kind", None) != kind:
                    raise ValueError(
                        f"a model that takes characters needs a tokenizer of kind {kind}, got"
                        f" {getattr(one, 'kind', type(one).__name__)}"
                    )
        for tokenizer, known, what in sizes:
            if tokenizer.vocabulary_size > known:
                raise ValueError(
                    f"the tokenizer has {tokenizer.vocabulary_size} {what}, but the model's"
                    f" vocabulary has {known}; use at least as many"
                )

    @property
    def tags(self) -> tuple[str, ...]:
        """Tag names, by tag index."""
        return tuple(self.model.settings["tags"])

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Metrics that can select the best checkpoint."""
        spans = () if self.scheme is None else ("f1", "precision", "recall")
        return (*spans, "accuracy")

    @property
    def places(self) -> Any:
        """Maximum sequence length of the model, in tokens; None for no limit."""
        return self.model.max_length

    # Training.

    def batches(self, examples: TaggedSentences, batch_size: int, seed: int) -> TaggedBatches:
        """Return length-bucketed batches; sentences over the length limit are dropped.

        Raises:
            ValueError: if no sentence is left, a tag is unknown, or tags break the tag scheme of
                the model's CRF (file:line).
        """
        head = self.model.settings["head"]
        if head["kind"] == "crf" and head["tag_scheme"] is not None:
            check_tags(examples, head["tag_scheme"])
        labels, encoded = self._labels(examples), self._examples(examples)
        kept = [row for row, one in enumerate(encoded) if self._fits(one)]
        if not kept:
            raise ValueError(
                f"{examples.origin}: none of its {len(examples)} sentences fits into"
                f" {self.max_length} words; raise data.max_length"
            )
        return TaggedBatches(
            [encoded[row] for row in kept],
            [labels[row] for row in kept],
            batch_size=batch_size,
            seed=seed,
            bucket_width=self._bucket_width(4),
            numbers=[row + 1 for row in kept],
        )

    def within_limits(self, examples: TaggedSentences) -> TaggedSentences:
        """Return the sentences that `batches` keeps."""
        fits = map(self._fits, self._examples(examples))
        return examples.take([row for row, fit in enumerate(fits) if fit])

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the model's loss: CRF likelihood of sentences, or cross-entropy of words."""
        made: keras.losses.Loss = self.model.make_loss(label_smoothing)
        return made

    def _examples(self, examples: TaggedSentences) -> list[EncodedWords]:
        """Encode the sentences of a corpus; raise ValueError if required marks are missing."""
        if not self._marks:
            return self._reader.encode(examples.words)
        if examples.marks is None:
            raise ValueError(
                f"{examples.origin}: the model takes marked words, but the corpus has no marks; set"
                " their column (data.marks)"
            )
        return self._reader.encode(examples.words, examples.marks)

    def _fits(self, sentence: EncodedWords) -> bool:
        places = self.places or len(sentence.tokens)
        return len(sentence.starts) <= self.max_length and len(sentence.tokens) <= places

    def _labels(self, examples: TaggedSentences) -> list[list[int]]:
        """Return tag indices; raise ValueError with the location of an unknown tag."""
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        for row, tags in enumerate(examples.tags):
            for word, tag in enumerate(tags):
                if tag not in numbers:
                    raise ValueError(
                        f"{examples.locate_word(row, word)}: unknown tag {tag!r}"
                        f"{did_you_mean(tag, numbers)}; fix it, or train on a corpus that has it"
                        f" (known: {', '.join(numbers)})"
                    )
        return [[numbers[tag] for tag in tags] for tags in examples.tags]

    @property
    def _marks(self) -> bool:
        return bool(self.model.settings["marks"])

    def _bucket_width(self, width: int) -> int:
        return width if self.places is None or self.places % width == 0 else 1

    # Prediction.

    def predict(
        self,
        texts: Sequence[str | Words],
        *,
        marks: Marked = None,
        attention: bool = True,
        **search_overrides: Any,
    ) -> list[Tagged]:
        """Tag each sentence, in order; a result does not depend on the other sentences.

        Args:
            texts: sentences, to be split by `data.split_words`, or lists of words.
            marks: for each sentence, the indices of its marked words, from 0. For models that take
                marks, such as the predicates of semantic role labelling.
            attention: also return attention weights, if the model has self-attention.
            **search_overrides: `n_best` and `batch_size` for this call.

        Raises:
            ValueError: if a sentence is empty or too long, marks are missing or out of range, or an
                option is unknown.
        """
        if isinstance(texts, str):
            raise ValueError("predict takes a list of sentences; write predict([text])")
        options = self.search.override(**search_overrides)
        sources = self._sources(texts, None, marks)
        self._calls += 1
        encoded = [source.encoded for source in sources]
        found = self._found(encoded, options, self._calls > OFTEN, attention=attention)
        answers = {
            row: answer(sources[row], outputs, self.tags, self.scheme) for row, outputs in found
        }
        return [answers[row] for row in range(len(sources))]

    def check_sources(self, texts: Sequence[str], places: Sequence[str] | None = None) -> None:
        """Raise ValueError for a text that `predict` rejects.

        Args:
            texts: sentences.
            places: location of each text for error messages; by default "source 0" and so on.
        """
        if self._marks:
            raise ValueError(
                "this model takes marked words, which a line of text does not contain; pass them in"
                " Python: task.predict(texts, marks=[[2], ...])"
            )
        self._sources(texts, places)

    def unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that no token of the vocabulary contains."""
        return unknown_characters(self.characters or self.tokenizer, text)

    def _sources(
        self,
        texts: Sequence[str | Words],
        places: Sequence[str] | None = None,
        marks: Marked = None,
    ) -> list[Source]:
        """Split and encode texts; raise ValueError for a text that cannot be tagged."""
        places = places or [f"source {row}" for row in range(len(texts))]
        split = [parted(text, place) for text, place in zip(texts, places, strict=True)]
        words = [[word.text for word in of_text] for _, of_text in split]
        encoded = self._reader.encode(words, self._marked(words, marks))
        self._refuse_long(encoded, places)
        pairs = zip(split, encoded, strict=True)
        return [self._reader.source(text, of_text, one) for (text, of_text), one in pairs]

    def _refuse_long(self, encoded: Sequence[EncodedWords], places: Sequence[str]) -> None:
        for one, place in zip(encoded, places, strict=True):
            if len(one.starts) > self.max_length:
                raise ValueError(
                    f"{place}: {len(one.starts)} words, the limit is {self.max_length}; shorten it"
                    " or raise the limit (data.max_length on the command line, task.max_length in"
                    " Python)"
                )
            if not self._fits(one):
                raise ValueError(
                    f"{place}: {len(one.tokens)} tokens, but the model has {self.places} positions;"
                    " shorten it"
                )

    def _marked(self, sentences: Sequence[Words], marks: Marked) -> list[list[bool]] | None:
        """Return booleans for the indices of marked words; raise ValueError for invalid marks."""
        if not self._marks:
            if marks is not None:
                raise ValueError(
                    "marks must be None for a model that takes no marks; remove the argument"
                )
            return None
        if marks is None or len(marks) != len(sentences):
            raise ValueError(
                "marks: the model takes marked words; pass the indices of those of each of the"
                f" {len(sentences)} sentences"
            )
        for row, (words, numbers) in enumerate(zip(sentences, marks, strict=True)):
            for number in numbers:
                if not 0 <= number < len(words):
                    raise ValueError(
                        f"marks: source {row} has words 0 to {len(words) - 1}, got {number}"
                    )
        return [
            [number in numbers for number in range(len(words))]
            for words, numbers in zip(sentences, marks, strict=True)
        ]

    def _found(
        self,
        sentences: Sequence[EncodedWords],
        options: SearchOptions,
        compiled: bool = False,
        **wanted: bool,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the row number and the `TagReading` outputs of each sentence.

        For more than FEW sentences, the model is compiled even without `compiled`.
        """
        if not sentences:
            return
        reading = self._reading(count=options.n_best, **wanted)
        labels = [[0] * len(one.starts) for one in sentences]
        width = self._bucket_width(BUCKET)
        batches = TaggedBatches(sentences, labels, options.batch_size, 0, bucket_width=width)
        for rows, _ in same_width([one.tokens for one in sentences], options.batch_size):
            size = min(options.batch_size, 2 ** (len(rows) - 1).bit_length())
            filled = [*rows, *[rows[0]] * (size - len(rows))]  # so that few shapes are compiled
            inputs, _ = batches.batch(np.array(filled))
            outputs = reading.run(inputs, compiled or len(sentences) > FEW)
            for at, row in enumerate(rows):
                yield row, {name: part[at] for name, part in outputs.items()}

    def _reading(self, **wanted: Any) -> TagReading:
        """Return a `TagReading` with these options, cached to keep its compiled function."""
        key = tuple(sorted(wanted.items()))
        known = self._readings.get(key)
        if known is None or known.tagger is not self.model:
            known = self._readings[key] = TagReading(self.model, **wanted)
        return known

    # Evaluation.

    def evaluate(self, examples: TaggedSentences, **search_overrides: Any) -> dict[str, Any]:
        """Compute tag accuracy on `examples` and, with a scheme, F1 of spans.

        Spans are extracted as in conlleval, from predicted and reference tags, even if these break
        the scheme.

        Returns:
            `sentences`, `words`, `unknown` (number of unknown tokens), `accuracy` (0 to 100, of
            words); with a scheme `f1`, `precision` and `recall` of spans (0 to 100), `invalid`
            (sentences whose predicted tags break the scheme) and `by_label`.

        Raises:
            ValueError: if a sentence is too long, or a tag is unknown (file:line).
        """
        options = self.search.override(**search_overrides).override(n_best=1)
        self._labels(examples)
        encoded = self._examples(examples)
        self._refuse_long(encoded, examples.locations())
        names, predicted = self.tags, [()] * len(encoded)
        for row, outputs in self._found(encoded, options, marginals=False):
            length = len(encoded[row].starts)
            predicted[row] = tuple(names[tag] for tag in outputs["tags"][0, :length])
        report: dict[str, Any] = {
            "sentences": len(encoded),
            "words": sum(len(one.starts) for one in encoded),
            "unknown": sum(list(one.tokens).count(self.tokenizer.unknown) for one in encoded),
            "accuracy": tag_accuracy(predicted, examples.tags),
        }
        if self.scheme is not None:
            scores = span_scores(predicted, examples.tags, self.scheme)
            report |= {"f1": scores.f1, "precision": scores.precision, "recall": scores.recall}
            report["invalid"] = scores.invalid
            report["by_label"] = [
                {"label": label, **asdict(score)} for label, score in scores.by_label.items()
            ]
        return report

    # Files.

    def save(self, folder: str | Path) -> None:
        """Write model, tokenizers and options into a folder, `task.json` last."""
        if self.characters is not None:
            self.characters.save(Path(folder) / "characters")
        super().save(folder)

    def _options(self) -> dict[str, Any]:
        return {"scheme": self.scheme, "characters": self.characters is not None}

    @classmethod
    def _read(cls, folder: Path, content: dict[str, Any]) -> dict[str, Any]:
        characters = load_tokenizer(folder / "characters") if content.get("characters") else None
        return {"characters": characters, "scheme": content.get("scheme")}
