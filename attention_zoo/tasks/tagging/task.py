"""Tagging: predict a tag for each word of a sentence, and the spans that tags encode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

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
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.metrics import read_spans
from attention_zoo.registry import Registry
from attention_zoo.tasks.building import load_or_train_tokenizer, load_vectors, make_tokenizer
from attention_zoo.tasks.inference import MAX_EAGER_CALLS, MAX_EAGER_INPUTS, InferenceCache
from attention_zoo.tasks.inputs import (
    NAN_LOGITS,
    Locations,
    add_locations,
    list_inputs,
    materialize_row,
    name_rows,
    predict_rows,
    refuse_rules,
)
from attention_zoo.tasks.progress import report_predicted
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.single_text import SingleTextTask
from attention_zoo.tasks.tagging.building import (
    CHARACTER_OPTIONS,
    build_tagger,
    check_tokenizers,
    takes_characters,
)
from attention_zoo.tasks.tagging.corpora import TAGGED_SENTENCES
from attention_zoo.tasks.tagging.model_call import TaggingCallMixin
from attention_zoo.tasks.tagging.result import (
    TaggerInference,
    TaggingResult,
    check_attention,
    group_sentences,
    make_result,
)
from attention_zoo.tasks.tagging.scoring import score_tags
from attention_zoo.tasks.tagging.words import (
    Marked,
    Source,
    WordEncoder,
    Words,
    find_spaces,
    get_marks,
    index_tags,
    list_marks,
    mark_words,
    select_columns,
    split_source,
)
from attention_zoo.tasks.task_file import read_task_file
from attention_zoo.tasks.text_inputs import (
    BUCKET,
    find_unknown_characters,
    list_shapes,
    round_batch_size,
)


@TASKS.register("tagging")
class Tagging(TaggingCallMixin, SingleTextTask):
    """Sequence tagging: a tagger, its tokenizer and its tag scheme.

    Each word is tokenized separately; its tag is predicted from its first token, or from all its
    tokens (see `models.TransformerTagger`).

    Args:
        model: a `models.Tagger`.
        tokenizer: `data.Tokenizer` of any kind, or a public one.
        characters: tokenizer of kind "character" for a model with character input; `tokenizer` is
            then of kind "whitespace", with whole words as tokens.
        search: only `n_best` and `batch_size` are used; decoding is exact.
        max_length: maximum number of words. Longer sentences are dropped in training, or rejected.
        scheme: tag scheme of spans: "BIO" (or "IOB2"), "IOB1", "BIOES", "BILOU", "BMES"; None
            without spans.

    Raises:
        ValueError: if the model is not a `models.Tagger`, its inputs do not fit the tokenizers, or
            a tag is not in the scheme.
    """

    name: ClassVar[str] = "tagging"
    corpora: ClassVar[Registry] = TAGGED_SENTENCES
    example_noun: ClassVar[str] = "sentences"
    unit: ClassVar[str] = "words"
    model_class = models.Tagger
    tokenizer_kind: ClassVar[str] = "whitespace"
    has_attention_option: ClassVar[bool] = True
    takes_words: ClassVar[bool] = True
    row_options: ClassVar[tuple[str, ...]] = ("marks",)
    uses_beam_search: ClassVar[bool] = False
    public_backbones: ClassVar[tuple[str, ...]] = ("bert", "distilbert", "roberta")
    used_search_options = ("n_best", "batch_size")
    evaluation_search_options = ("batch_size",)
    result_class = TaggingResult
    card_metrics: ClassVar[Mapping[str, str]] = {
        "sentences": "sentences",
        "words": "words",
        "f1": "span F1",
        "accuracy": "tag accuracy, %",
        "invalid": "invalid tag sequences",
    }

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        characters: Tokenizer | None = None,
        search: SearchOptions | None = None,
        max_length: int = 256,
        scheme: str | None = None,
    ) -> None:
        super().__init__(model, tokenizer, search, max_length)
        self.characters, self.scheme = characters, scheme
        self._encoder = WordEncoder(tokenizer, characters)
        check_tokenizers(self.model, tokenizer, characters)
        if scheme is not None:
            read_spans(self.tags, scheme)  # raises ValueError for tags outside the scheme
        self._calls = 0
        self._inferences = InferenceCache(TaggerInference)

    @classmethod
    def from_recipe(cls, recipe: Any, train: TaggedSentences) -> Self:
        """Build a tagger for the tags of the training split and train its tokenizers."""
        tokenizer, options = make_tokenizer(recipe, train, ["words"]), recipe.tokenizer
        size, characters, character_count = tokenizer.vocabulary_size, None, None
        if takes_characters(recipe.model):
            characters = load_or_train_tokenizer(CHARACTER_OPTIONS, train, ["words"])
            character_count = characters.vocabulary_size
        model = build_tagger(recipe, train.known_tags, size, character_count)
        if options is not None and options.vectors is not None:
            load_vectors(model, tokenizer, options.vectors)
        scheme = recipe.data.scheme
        return cls(model, tokenizer, characters, scheme=scheme, **cls.recipe_options(recipe))

    @property
    def tags(self) -> tuple[str, ...]:
        """Tag names, by tag index."""
        return tuple(self.model.settings["tags"])

    @property
    def metric_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Metrics that can select the best checkpoint."""
        spans = () if self.scheme is None else ("f1", "precision", "recall")
        return (*spans, "accuracy")

    @property
    def max_positions(self) -> Any:
        """Maximum sequence length of the model, in tokens; None for no limit."""
        return self.model.max_length

    # Training.

    def make_batches(self, examples: TaggedSentences, batch_size: int, seed: int) -> TaggedBatches:
        """Return length-bucketed batches; sentences over the length limit are dropped.

        Raises:
            ValueError: if no sentence is left, or a tag is unknown or breaks the scheme (file:line)
        """
        head = self.model.settings["head"]
        if head["kind"] == "crf" and head["tag_scheme"] is not None:
            check_tags(examples, head["tag_scheme"])
        encoded, options = self._encode_corpus(examples)
        return TaggedBatches(encoded, (), batch_size, seed, **options)

    def _list_columns(self, examples: Any, encoded: Any, fits: Sequence[bool]) -> dict[str, Any]:
        return select_columns(encoded, index_tags(examples, self.tags), fits)

    @property
    def encoding_options(self) -> dict[str, Any]:
        options = {**super().encoding_options, "characters": self._encoder.character_hash}
        options |= {"tags": self.tags, "add_special_tokens": self.model.has_class_token}
        return {**options, "marks": self._takes_marks}

    def _encode_examples(self, examples: TaggedSentences) -> list[EncodedWords]:
        """Encode the sentences of a corpus; raise ValueError if required marks are missing."""
        marks = get_marks(examples) if self._takes_marks else None
        return self._encoder.encode(examples.words, marks, None, self.model.has_class_token)

    def _fits(self, encoded: EncodedWords) -> bool:
        """Return whether a sentence is within the length limits."""
        limit = self.max_positions or len(encoded.tokens)
        return len(encoded.starts) <= self.max_length and len(encoded.tokens) <= limit

    @property
    def _takes_marks(self) -> bool:
        return bool(self.model.settings["marks"])

    # Prediction and evaluation.

    def predict(
        self,
        texts: Iterable[str | Words],
        *,
        marks: Iterable[Iterable[int]] | None = None,
        attention: bool = True,
        on_error: str = "raise",
        **search_overrides: Any,
    ) -> list[TaggingResult]:
        """Tag each sentence, in order; a result does not depend on the other sentences.

        Args:
            texts: sentences, to be split by `data.split_words`, or lists of words.
            marks: for each sentence, the indices of its marked words, from 0. For models that take
                marks, such as the predicates of semantic role labelling.
            attention: also return attention weights, if the model has self-attention and the
                sentence fits into one window (`model.window`).
            on_error: "raise", or "skip": see `Task.predict`.
            **search_overrides: `n_best` and `batch_size` for this call.

        Raises:
            ValueError: if a sentence is empty or too long, marks are missing or out of range, or an
                option is unknown.
        """
        texts = [materialize_row(text) for text in list_inputs(texts, "text")]
        options = self.override_search(**search_overrides)
        marked = list_marks(marks, len(texts), self._takes_marks)
        self._calls += 1

        def prepare(rows: list[int]) -> list[Source]:
            row_marks = None if marked is None else [marked[row] for row in rows]
            return self._encode_sources([texts[row] for row in rows], name_rows(rows), row_marks)

        def tag(_: list[int], sources: list[Source]) -> list[TaggingResult]:
            encoded = [source.encoded for source in sources]
            outputs = self._run_inference(
                encoded, options, self._calls > MAX_EAGER_CALLS, attention=attention
            )
            results = {n: make_result(sources[n], x, self.tags, self.scheme) for n, x in outputs}
            return [results[row] for row in range(len(sources))]

        return predict_rows(len(texts), on_error, self.result_class, prepare, tag)

    def warm_up(
        self, batch_sizes: Sequence[int] = (1, 2), lengths: Sequence[int] = (8, 16)
    ) -> None:
        """Compile the model for sentences of these shapes; see `Task.warm_up`."""
        self._calls = MAX_EAGER_CALLS  # from now on, predictions are compiled
        for size, length in list_shapes(batch_sizes, lengths):
            words = [["a"] * min(length, self.max_length)] * size
            self.predict(words, marks=[[]] * size if self._takes_marks else None)

    def check_sources(self, sources: Sequence[str], locations: Locations = None) -> None:
        """Raise ValueError for a text that `predict` rejects; see `Task.check_sources`."""
        if self._takes_marks:
            raise ValueError(
                "this model takes marked words, which a line of text does not contain; pass them in"
                " Python: task.predict(texts, marks=[[2], ...])"
            )
        self._encode_sources(sources, locations)

    def find_unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that no token of the vocabulary contains."""
        return find_unknown_characters(self.characters or self.tokenizer, text)

    def _encode_sources(
        self, texts: Sequence[Any], locations: Locations = None, marks: Marked = None
    ) -> list[Source]:
        """Split and encode texts; raise ValueError for a text that cannot be tagged."""
        locations = locations or name_rows(range(len(texts)))
        split = [split_source(*pair) for pair in zip(texts, locations, strict=True)]
        words = [[word.text for word in of_text] for _, of_text in split]
        has_space = [find_spaces(words_of_text) for _, words_of_text in split]
        encoded = self._encoder.encode(
            *(words, mark_words(words, marks, locations), has_space, self.model.has_class_token)
        )
        self._refuse_long(encoded, locations)
        pairs = zip(split, encoded, strict=True)
        return [self._encoder.make_source(*text_and_words, one) for text_and_words, one in pairs]

    def _refuse_long(self, encoded: Sequence[EncodedWords], locations: Locations) -> None:
        """Raise ValueError for a sentence that is too long for the limit or the model."""
        for location, one in add_locations(encoded, locations):
            if len(one.starts) > self.max_length:
                raise self._limit_error(location, f"{len(one.starts)} words", "max_length")
            if not self._fits(one):
                raise ValueError(
                    f"{location}: {len(one.tokens)} tokens, but the model has {self.max_positions}"
                    " positions; shorten it, or train with model.window, which splits it"
                )

    def _run_inference(
        self,
        sentences: Sequence[EncodedWords],
        options: SearchOptions,
        compiled: bool = False,
        **wanted: bool,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the row number and the `TaggerInference` outputs of each sentence.

        For more than MAX_EAGER_INPUTS sentences, the model is compiled even without `compiled`.
        """
        if not sentences:
            return
        labels = [[0] * len(one.starts) for one in sentences]
        width = self._round_bucket_width(BUCKET)
        batches = TaggedBatches(sentences, labels, options.batch_size, 0, bucket_width=width)
        groups = group_sentences(self.model, sentences, options.batch_size, **wanted)
        for rows, run_options in groups:
            size = round_batch_size(len(rows), options.batch_size)
            padded = [*rows, *[rows[0]] * (size - len(rows))]  # so that few shapes are compiled
            inputs, _ = batches.make_batch(np.array(padded))
            inference = self._inferences.get(self.model, count=options.n_best, **run_options)
            outputs = inference.run(inputs, compiled or len(sentences) > MAX_EAGER_INPUTS)
            for index, row in enumerate(rows):
                yield row, {name: output[index] for name, output in outputs.items()}
            report_predicted(len(rows))

    def evaluate(self, examples: TaggedSentences, **search_overrides: Any) -> dict[str, Any]:
        """Compute tag accuracy on `examples` and, with a scheme, F1 of spans.

        Spans are extracted as in conlleval, from predicted and reference tags, even if these break
        the scheme. Of the search options, only `batch_size` may be given.

        Returns:
            `sentences`, `words`, `unknown` (unknown tokens), and the metrics of `score_tags`.

        Raises:
            ValueError: if a sentence is too long, or a tag is unknown (file:line).
        """
        batch_size = self.read_batch_size(**search_overrides)
        options = self.search.override(n_best=1, batch_size=batch_size)
        index_tags(examples, self.tags)
        encoded = self._encode_examples(examples)
        self._refuse_long(encoded, examples.locations())
        names, predicted = self.tags, [()] * len(encoded)
        for row, outputs in self._run_inference(encoded, options, marginals=False):
            if np.isnan(outputs["scores"]).any():
                raise ValueError(f"{examples.locations()[row]}: {NAN_LOGITS}")
            length = len(encoded[row].starts)
            predicted[row] = tuple(names[tag] for tag in outputs["tags"][0, :length])
        counts = {
            "sentences": len(encoded),
            "words": sum(len(one.starts) for one in encoded),
            "unknown": sum(list(one.tokens).count(self.tokenizer.unknown) for one in encoded),
        }
        return {**counts, **score_tags(predicted, examples.tags, self.scheme)}

    # Reports, saving and export.

    def plot(self, result: Any, path: str | Path | None = None) -> Any:
        """Return a figure of the mean self-attention of all layers and heads; see `Task.plot`."""
        from attention_zoo import inspection

        check_attention(result, self.model)
        weights = np.mean(result.attention, axis=(0, 1))
        return inspection.plot_alignment(weights, result.tokens, result.source_tokens, path)

    def write_report(self, results: Sequence[TaggingResult], path: str | Path) -> None:
        """Write sentences with their spans, tags and attention as one HTML page."""
        from attention_zoo import inspection

        inspection.write_tagged_page(results, path)

    def get_saved_fields(self) -> dict[str, Any]:
        """Return the tag scheme, and whether the task has a character tokenizer."""
        return {"scheme": self.scheme, "characters": self.characters is not None}

    @classmethod
    def load_fields(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return the tag scheme."""
        return {"scheme": content.get("scheme")}

    @classmethod
    def load_tokenizers(cls, folder: Path) -> dict[str, Any]:
        """Load the word tokenizer, and the character tokenizer if there is one."""
        tokenizers = super().load_tokenizers(folder)
        if read_task_file(folder).get("characters"):
            tokenizers["characters"] = load_tokenizer(folder / "characters")
        return tokenizers

    def save(self, folder: str | Path, weights_dtype: str | None = None) -> None:
        """Write model, tokenizers and options to a folder; `task.json` is written last."""
        if self.characters is not None:
            self.characters.save(Path(folder) / "characters")
        super().save(folder, weights_dtype)

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the tagger as a `tf.Module` that takes strings."""
        from attention_zoo.tasks.tagging.export import TaggingModule

        refuse_rules(rules, self.name)
        return TaggingModule(self)
