"""Classification of texts and documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, ClassVar, Self

import keras
import numpy as np

from attention_zoo import models
from attention_zoo.data import LabelledTexts, Tokenizer
from attention_zoo.data.batching.labelled_text_batches import LabelledTextBatches
from attention_zoo.data.text.sentences import BOUNDARIES
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.registry import Registry, check_choice
from attention_zoo.tasks.building import (
    check_vocabulary_size,
    load_vectors,
    make_tokenizer,
)
from attention_zoo.tasks.classification.building import (
    build_classifier,
    check_multi_label,
    count_classes,
    index_classes,
)
from attention_zoo.tasks.classification.class_weights import check_class_weights, make_class_weights
from attention_zoo.tasks.classification.corpora import LABELLED_TEXTS
from attention_zoo.tasks.classification.inference import ClassifierInference, run_classifier
from attention_zoo.tasks.classification.model_call import ClassificationCallMixin
from attention_zoo.tasks.classification.result import (
    ClassificationResult,
    Source,
    make_result,
    make_source,
)
from attention_zoo.tasks.classification.scoring import score_classes
from attention_zoo.tasks.classification.texts import (
    EncodedText,
    Limits,
    TextEncoder,
    check_document,
    describe_excess,
)
from attention_zoo.tasks.inference import MAX_EAGER_CALLS, Arrays, BatchedInference
from attention_zoo.tasks.inputs import (
    NAN_LOGITS,
    Input,
    Locations,
    add_locations,
    list_inputs,
    materialize_row,
    name_rows,
    predict_rows,
    refuse_rules,
)
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.result import check_plottable
from attention_zoo.tasks.single_text import SingleTextTask
from attention_zoo.tasks.text_inputs import list_shapes, select_evenly_spaced


@TASKS.register("classification")
class Classification(ClassificationCallMixin, SingleTextTask):
    """Text classification: a classifier, its tokenizer and the limits of its texts.

    A text that exceeds a limit is truncated; without `truncate`, training drops it, and `predict`
    and `evaluate` reject it.

    Args:
        model: a `models.Classifier`.
        tokenizer: `data.Tokenizer` of any kind, or a public one.
        search: only `n_best` (the number of most probable classes) and `batch_size` are used.
        max_length: maximum number of tokens of a text, special tokens included.
        max_sentences: maximum number of sentences of a document, for models of documents.
        max_sentence_length: maximum number of tokens of a sentence of a document; longer sentences
            are split.
        truncate: whether texts that exceed a limit are truncated.
        sentences: rule of `data.split_sentences`, for models of documents.
        class_weights: weights of the classes in the loss: None, a mapping of names to weights (1
            for classes that it does not contain), or "balanced", the inverse of their frequencies
            in the training data.
        class_counts: number of texts of each class in the training data; for "balanced".

    Raises:
        ValueError: if the model is not a `models.Classifier`, its vocabulary has another size than
            the tokenizer's, or `class_weights` or `sentences` is invalid.
    """

    name: ClassVar[str] = "classification"
    corpora: ClassVar[Registry] = LABELLED_TEXTS
    inputs: ClassVar[tuple[Input, ...]] = (Input("texts", "document"),)
    example_noun: ClassVar[str] = "texts"
    model_class = models.Classifier
    limits = ("max_length", "max_sentences", "max_sentence_length")
    boolean_options = ("truncate",)
    has_attention_option: ClassVar[bool] = True
    uses_beam_search: ClassVar[bool] = False
    public_backbones: ClassVar[tuple[str, ...]] = ("bert", "distilbert", "roberta")
    used_search_options = ("n_best", "batch_size")
    evaluation_search_options = ("batch_size",)
    result_class = ClassificationResult
    card_metrics: ClassVar[Mapping[str, str]] = {
        "texts": "texts",
        "accuracy": "accuracy, %",
        "exact_match": "exact match, %",
        "macro_f1": "macro F1, %",
        "expected_calibration_error": "calibration error, %",
    }

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        max_length: int = 512,
        max_sentences: int = 128,
        max_sentence_length: int = 64,
        truncate: bool = True,
        sentences: str = "punctuation",
        class_weights: Any = None,
        class_counts: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(model, tokenizer, search, max_length)
        self.max_sentences, self.max_sentence_length = max_sentences, max_sentence_length
        self.truncate, self.sentences = truncate, sentences
        self.class_weights = check_class_weights(class_weights)
        self.class_counts = {name: int(count) for name, count in (class_counts or {}).items()}
        check_vocabulary_size(tokenizer, self.model.vocabulary_size)
        make_class_weights(self.class_weights, self.classes, self.class_counts)  # raises ValueError
        check_choice("sentences", sentences, BOUNDARIES)
        self._calls = 0
        self._inference = BatchedInference(ClassifierInference)

    @classmethod
    def from_recipe(cls, recipe: Any, train: LabelledTexts) -> Self:
        """Build a classifier for the classes of the training split and train its tokenizer."""
        tokenizer, options = make_tokenizer(recipe, train, ["texts"]), recipe.tokenizer
        counts = count_classes(train, recipe.data.multi_label)
        model = build_classifier(recipe, [*counts], tokenizer.vocabulary_size)
        if options is not None and options.vectors is not None:
            load_vectors(model, tokenizer, options.vectors)
        return cls(model, tokenizer, class_counts=counts, **cls.recipe_options(recipe))

    @classmethod
    def recipe_options(cls, recipe: Any) -> dict[str, Any]:
        """Return a recipe's options of the search, of texts and of the loss."""
        own = {name: vars(recipe.data)[name] for name in ("sentences", "class_weights")}
        return {**super().recipe_options(recipe), **own}

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their indices."""
        return self.model.classes

    @property
    def metric_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Metrics that can select the best checkpoint."""
        names = ("macro_f1", "micro_f1", "exact_match")
        return names if self.model.multi_label else ("accuracy", "macro_f1")

    @property
    def max_positions(self) -> Any:
        """Maximum sequence length of the model, in tokens; None for no limit."""
        return self.model.max_length

    def adapt_to_recipe(self, recipe: Any, train: LabelledTexts) -> None:
        """Count the classes of the training data; ValueError for another `multi_label`."""
        check_multi_label(recipe, self.model.multi_label)
        self.class_counts = count_classes(train, self.model.multi_label)

    def select_monitored(self, examples: LabelledTexts, size: int) -> LabelledTexts:
        """Return evenly spaced texts, because files may be sorted by class."""
        return examples.take(select_evenly_spaced(len(examples), size))

    def get_predict_inputs(self, examples: LabelledTexts) -> Sequence[str]:
        """Return the texts."""
        return examples.texts

    # Token ids.

    @property
    def num_special_tokens(self) -> int:  # type: ignore[override]
        """Number of special tokens around a text: the class token and the end token, or none."""
        return 2 if self.model.has_class_token else 0

    @property
    def _encoder(self) -> TextEncoder:
        rule = self.sentences if self.model.has_sentences else None
        return TextEncoder(self.tokenizer, rule, self.model.has_class_token)

    @property
    def text_limits(self) -> Limits:
        """Limits of texts, without special tokens."""
        length = self.longest - self.num_special_tokens
        if length < 1:
            raise ValueError(f"max_length must be above 2 special tokens, got {self.max_length}")
        return Limits(length, self.max_sentences, self.max_sentence_length)

    # Training.

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the cross-entropy loss of the classes, with their weights."""
        weights = make_class_weights(self.class_weights, self.classes, self.class_counts)
        loss: keras.losses.Loss = self.model.make_loss(label_smoothing, weights)
        return loss

    def make_batches(
        self, examples: LabelledTexts, batch_size: int, seed: int
    ) -> LabelledTextBatches:
        """Return length-bucketed batches; texts over a limit are truncated or dropped.

        Raises:
            ValueError: if no text is left, or a class is unknown (file:line).
        """
        encoded, options = self._encode_corpus(examples)
        num_classes = len(self.classes) if self.model.multi_label else None
        return LabelledTextBatches(encoded, batch_size, seed, num_classes, **options)

    @property
    def encoding_options(self) -> dict[str, Any]:
        own = {"sentences": self._encoder.rule, "classes": self.classes}
        own["multi_label"] = self.model.multi_label
        return {**super().encoding_options, **own, "special": self.num_special_tokens}

    def _encode_examples(self, examples: LabelledTexts) -> list[EncodedText]:
        return self._encoder.encode(examples.texts, self.text_limits)

    def _fits(self, encoded: EncodedText) -> bool:
        return any(encoded.tokens) and (self.truncate or not encoded.is_truncated)

    def _list_columns(self, examples: Any, encoded: Any, fits: Sequence[bool]) -> dict[str, Any]:
        labels = index_classes(examples, self.classes, self.model.multi_label)
        fitting = list(compress(zip(encoded, labels, strict=True), fits))
        tokens = [self._encoder.add_special_tokens(one.tokens) for one, _ in fitting]
        columns = {"tokens": tokens, "labels": [[n + 1 for n in row] or [0] for _, row in fitting]}
        if self.model.has_sentences:
            columns["sentence_lengths"] = [one.lengths for one, _ in fitting]
        return columns

    # Prediction.

    def predict(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        attention: bool = True,
        on_error: str = "raise",
        **search_overrides: Any,
    ) -> list[ClassificationResult]:
        """Classify each text, in order; a result does not depend on the other texts.

        Args:
            texts: texts, or lists of sentences. A list of sentences is joined with line
                breaks.
            attention: also return attention weights, if the model has attention.
            on_error: "raise", or "skip": see `Task.predict`.
            **search_overrides: `n_best` and `batch_size` for this call.

        Raises:
            ValueError: if a text is empty, or too long without `truncate`, or an option is unknown.
        """
        texts = [materialize_row(text) for text in list_inputs(texts, "text")]
        options = self.override_search(**search_overrides)
        self._calls += 1

        def prepare(rows: list[int]) -> list[Source]:
            return self._encode_sources([texts[row] for row in rows], name_rows(rows))

        def classify(_: list[int], sources: list[Source]) -> list[ClassificationResult]:
            encoded = [source.encoded for source in sources]
            outputs = self._run_inference(
                encoded, options, self._calls > MAX_EAGER_CALLS, attention
            )
            results = {
                row: make_result(sources[row], output, self.classes, options.n_best)
                for row, output in outputs
            }
            return [results[row] for row in range(len(sources))]

        return predict_rows(len(texts), on_error, self.result_class, prepare, classify)

    def warm_up(
        self, batch_sizes: Sequence[int] = (1, 2), lengths: Sequence[int] = (8, 16)
    ) -> None:
        """Compile the model for texts of these shapes; see `Task.warm_up`."""
        self._calls = MAX_EAGER_CALLS  # from now on, predictions are compiled
        for size, length in list_shapes(batch_sizes, lengths):
            length = min(length, self.text_limits.max_length)
            sentences = [length] if self.model.has_sentences else None
            text = EncodedText([self.tokenizer.unknown] * length, sentences, length, 1)
            list(self._run_inference([text] * size, self.search, True, True))

    def check_sources(self, sources: Sequence[str], locations: Locations = None) -> None:
        """Raise ValueError for a text that `predict` rejects; see `Task.check_sources`."""
        checked = [check_document(*one) for one in add_locations(sources, locations)]
        self._encode_checked(checked, locations)

    def find_unknown_characters(self, text: str) -> list[str]:
        """Return no characters: a text with unknown tokens can be classified."""
        return []

    def _encode_sources(self, texts: Sequence[Any], locations: Sequence[str]) -> list[Source]:
        """Encode texts; raise ValueError for one that is invalid."""
        checked = [check_document(*one) for one in add_locations(texts, locations)]
        encoded = self._encode_checked(checked, locations)
        return [make_source(*x, self._encoder) for x in zip(checked, encoded, strict=True)]

    def _encode_checked(
        self, texts: Sequence[str], locations: Locations = None
    ) -> list[EncodedText]:
        """Encode texts; raise ValueError for one without tokens, or over a limit."""
        limits, special = self.text_limits, self.num_special_tokens
        encoded = self._encoder.encode(texts, limits)
        for location, one in add_locations(encoded, locations):
            if not any(one.tokens):
                raise ValueError(f"{location}: the text is empty. Remove it or write a sentence.")
            if one.is_truncated and not self.truncate:
                raise self._limit_error(location, *describe_excess(one, limits, special))
        return encoded

    def _run_inference(
        self,
        encoded: Sequence[EncodedText],
        options: SearchOptions,
        compiled: bool = False,
        attention: bool = False,
    ) -> Iterator[tuple[int, Arrays]]:
        """Return an iterator over row numbers and `ClassifierInference` outputs of each text."""
        return run_classifier(
            *(self._inference, self.model, self._encoder, encoded),
            batch_size=options.batch_size,
            compiled=compiled,
            attention=attention,
        )

    # Evaluation and reports.

    def evaluate(self, examples: LabelledTexts, **search_overrides: Any) -> dict[str, Any]:
        """Compute accuracy, F1 scores and the calibration error.

        Of the search options, only `batch_size` may be given.

        Returns:
            `texts`, `sources_truncated` (texts of which tokens were dropped), `unknown` (unknown
            tokens), and the metrics of `score_classes`.

        Raises:
            ValueError: if a text is too long without `truncate`, or a class is unknown (file:line).
        """
        options = self.search.override(batch_size=self.read_batch_size(**search_overrides))
        labels = index_classes(examples, self.classes, self.model.multi_label)
        encoded = self._encode_checked(examples.texts, examples.locations())
        log_probabilities: list[Any] = [None] * len(encoded)
        for row, outputs in self._run_inference(encoded, options):
            if np.isnan(outputs["log_probabilities"]).any():
                raise ValueError(f"{examples.locations()[row]}: {NAN_LOGITS}")
            log_probabilities[row] = outputs["log_probabilities"]
        counts = {
            "texts": len(encoded),
            "sources_truncated": sum(one.is_truncated for one in encoded),
            "unknown": sum(one.tokens.count(self.tokenizer.unknown) for one in encoded),
        }
        return {**counts, **score_classes(np.stack(log_probabilities), labels, self.classes)}

    def plot(self, result: Any, path: Any = None) -> Any:
        """Return a figure of the weights of a result's tokens; see `Task.plot`."""
        from attention_zoo import inspection

        check_plottable(result)
        return inspection.plot_classified(result, path)

    def write_report(self, results: Sequence[ClassificationResult], path: Any) -> None:
        """Write texts, with words highlighted by their weights, and classes as one HTML page."""
        from attention_zoo import inspection

        inspection.write_classified_page(results, path)

    # Saving and export.

    def get_saved_fields(self) -> dict[str, Any]:
        """Return the rule of sentences, and weights and counts of the classes."""
        names = ("sentences", "class_weights", "class_counts")
        return {name: vars(self)[name] for name in names}

    @classmethod
    def load_fields(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return the rule of sentences, and weights and counts of the classes."""
        return {name: content[name] for name in ("sentences", "class_weights", "class_counts")}

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the classifier as a `tf.Module` that takes strings."""
        from attention_zoo.tasks.classification.export import ClassificationModule

        refuse_rules(rules, self.name)
        return ClassificationModule(self)
