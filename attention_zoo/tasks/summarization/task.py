"""Summarization: abstractive summaries of texts, with copied out-of-vocabulary words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np

from attention_zoo import models
from attention_zoo.data import TextPairs, Tokenizer, encode_for_copying
from attention_zoo.data.tokenizers.public_tokenizers import BartTokenizer
from attention_zoo.data.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer
from attention_zoo.data.tokenizers.tokenizer import MARK
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.decoding import Rule, SearchOptions, SearchResult
from attention_zoo.tasks.building import build_task, check_model, check_vocabulary_size
from attention_zoo.tasks.generation import Hypothesis, read_hypotheses
from attention_zoo.tasks.inputs import (
    Locations,
    add_locations,
    check_rules,
    check_text,
    list_inputs,
    name_rows,
    predict_rows,
)
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.result import check_plottable
from attention_zoo.tasks.scoring import score_summaries
from attention_zoo.tasks.summarization.article import Article, check_limits
from attention_zoo.tasks.summarization.model_call import SummarizationCallMixin
from attention_zoo.tasks.summarization.result import Summary, origins
from attention_zoo.tasks.text_inputs import (
    find_unknown,
    find_unknown_characters,
    predict_by_width,
)
from attention_zoo.tasks.text_pairs import Sides, TextPairTask

WIDTH = 32  # sources are padded to multiples of this, so that many share a shape


@TASKS.register("summarization")
class Summarization(SummarizationCallMixin, TextPairTask):
    """Summarization: a model and a tokenizer of both sides. Inputs and outputs are strings.

    If the tokenizer has a `text_start`, as that of BART, sources and targets begin with it.

    Args:
        model: a `models.CopyingMixin`, or a `models.Transformer` of a public checkpoint.
        tokenizer: `data.Tokenizer` with the model's vocabulary, or the tokenizer of a BART or T5.
        search: default search options of `predict`. Without a `max_length` or `max_length_ratio`,
            the limit is `max_target_length`.
        max_source_length, max_target_length: maximum number of tokens of a text, and of a summary
            with its end token. Training drops longer pairs; `predict` rejects a longer text.
        truncate_source: truncate longer texts to `max_source_length` tokens instead, in training
            too. A result's `source_truncated` reports it.
        source_prefix: text that precedes every source, such as "summarize: " for T5.
        add_source_end: whether to add the end token to a source, as BART and T5 do; it counts as
            one of its tokens.

    Raises:
        ValueError: if the model is of another class, or its vocabulary size is not the tokenizer's.
    """

    name: ClassVar[str] = "summarization"
    output_noun: ClassVar[str] = "summary"
    result_class = Summary
    max_length_attribute: ClassVar[str | None] = "max_target_length"
    metric_names: ClassVar[tuple[str, ...]] = ("rouge1", "rouge2", "rougeL", "exact_match")
    boolean_options: ClassVar[tuple[str, ...]] = ("truncate_source",)
    tokenizer_kind: ClassVar[str] = "word"
    metric_modules: ClassVar[tuple[str, ...]] = ("rouge_score",)
    card_metrics: ClassVar[Mapping[str, str]] = {
        "search": "search",
        "sentences": "texts",
        "rouge1": "ROUGE-1",
        "rouge2": "ROUGE-2",
        "rougeL": "ROUGE-L",
        "lead_rouge1 / lead_rouge2 / lead_rougeL": "LEAD-1 baseline, ROUGE-1 / 2 / L",
        "facts": "names and figures, %",
        "repeated_3grams": "repeated 3-grams, %",
        "copied_share": "words from the source, %",
    }

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer | BartTokenizer | SentencePieceTokenizer,
        search: SearchOptions | None = None,
        max_source_length: int = 400,
        max_target_length: int = 100,
        truncate_source: bool = False,
        source_prefix: str = "",
        add_source_end: bool = False,
    ) -> None:
        self.model: Any = model
        self.copies = 0
        if isinstance(model, models.Transformer):
            check_vocabulary_size(tokenizer, model.source_vocabulary_size)
            check_vocabulary_size(tokenizer, model.target_vocabulary_size)
        else:
            check_model(model, models.CopyingMixin, "PointerGenerator")
            self.copies = self.model.copies
            check_vocabulary_size(tokenizer, self.model.vocabulary_size)  # copied ids start there
        self.tokenizer = tokenizer
        self.search = search or SearchOptions()
        self.max_source_length = max_source_length
        self.max_target_length = max_target_length
        self.truncate_source = truncate_source
        self.source_prefix = source_prefix
        self.add_source_end = bool(add_source_end)

    @classmethod
    def from_recipe(cls, recipe: Any, train: TextPairs) -> Any:
        """Build a summarizer and train one tokenizer for source and target."""
        return build_task(cls, recipe, train, "sources", "targets")

    # Training.

    @property
    def encoding_options(self) -> dict[str, Any]:
        options = {"copies": self.copies, **self.get_saved_fields()}
        return {**super().encoding_options, **options}

    def encode_pairs(self, examples: TextPairs) -> Sides:
        """Return token ids of both sides, including the extended ids of words to copy."""
        sources = [self.source_prefix + text for text in examples.sources]
        encoded = encode_for_copying(
            self.tokenizer, sources, examples.targets, self.copies, self._longest
        )
        start, end = self.special_ids
        empty = self._find_empty(examples.sources, encoded.sources)
        return (
            [
                [] if is_empty else [*start, *ids, *end]
                for ids, is_empty in zip(encoded.sources, empty, strict=True)
            ],
            [[*start, *ids] if ids else [] for ids in encoded.targets],
        )

    @property
    def special_ids(self) -> tuple[list[int], list[int]]:
        """The tokens with which a source begins and ends; a target begins with the former."""
        start = self.tokenizer.text_start
        return [] if start is None else [start], [self.tokenizer.end] * self.add_source_end

    def _find_empty(self, texts: Sequence[str], encoded: Sequence[list[int]]) -> list[bool]:
        """Return whether each text has no tokens.

        Args:
            texts: texts without the prefix. encoded: token ids of the texts with the prefix.
        """
        if self.source_prefix:
            encoded = self.tokenizer.encode(texts)
        return [not ids for ids in encoded]

    @property
    def num_special_tokens(self) -> int:
        """Number of special tokens of a source."""
        return sum(map(len, self.special_ids))

    @property
    def _longest(self) -> int | None:
        """Number of tokens to which sources are truncated; None for no truncation.

        Raises:
            ValueError: a limit exceeds the number of the model's positions, or leaves no token.
        """
        limits = {name: vars(self)[name] for name in self.limits}
        check_limits(limits, getattr(self.model, "max_length", None), self.num_special_tokens)
        return self.max_source_length - self.num_special_tokens if self.truncate_source else None

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the model's loss: `CopyCrossEntropy` if it copies, else `SequenceCrossEntropy`."""
        if not isinstance(self.model, models.CopyingMixin):
            return super().make_loss(label_smoothing)
        return self.model.make_loss(label_smoothing)

    # Prediction.

    def predict(
        self,
        texts: Iterable[str],
        *,
        rules: Sequence[Rule] = (),
        on_error: str = "raise",
        **search_overrides: Any,
    ) -> list[Summary]:
        """Summarize each text, in order; a result does not depend on the other texts.

        Args:
            texts: texts to summarize.
            rules: additional decoding rules (`decoding.Rule`), the same for all texts.
            on_error: "raise", or "skip": see `Task.predict`.
            **search_overrides: fields of `SearchOptions` to override in this call.

        Raises:
            ValueError: if a text is empty; it is longer than `max_source_length` tokens, without
                `truncate_source`; an option is unknown or conflicts with another; or the search
                finds no summary.
        """
        texts, rules = list_inputs(texts, "text"), check_rules(rules)
        options = self.search_options(**search_overrides)

        def prepare(rows: list[int]) -> list[Article]:
            return self.articles([texts[row] for row in rows], name_rows(rows))

        def summarize(_: list[int], articles: list[Article]) -> list[Summary]:
            def summarize_batch(part: list[int], source: np.ndarray) -> Iterator[Summary]:
                source = source[:, : self.max_source_length]  # the model may have no more positions
                result, copied = self._search_and_trace(source, options, rules)
                for index, row in enumerate(part):
                    results = (
                        self._make_result(articles[row], hypothesis, copied[index, n], options)
                        for n, hypothesis in enumerate(read_hypotheses(result, index))
                    )
                    yield self._rank(results, result.scores[index])

            ids = [article.ids for article in articles]
            return predict_by_width(ids, options.batch_size, summarize_batch, WIDTH)

        return predict_rows(len(texts), on_error, self.result_class, prepare, summarize)

    def _run_search(
        self, source: np.ndarray, options: SearchOptions, rules: Sequence[Rule] = ()
    ) -> SearchResult:
        """Return the hypotheses of a batch of sources, with the attention of `predict`."""
        return self._search_and_trace(source, options, rules)[0]

    def _search_and_trace(
        self, source: np.ndarray, options: SearchOptions, rules: Sequence[Rule]
    ) -> tuple[SearchResult, np.ndarray]:
        """Return the hypotheses, and the copy probability of each token `(B, n, L)`."""
        result = super()._run_search(source, options, rules)
        shape = result.tokens.shape
        if not isinstance(self.model, models.CopyingMixin):
            return result, np.zeros(shape, "float32")
        sources, tokens = np.repeat(source, shape[1], axis=0), result.tokens
        trace = self.model.compiled_trace(sources, tokens.reshape(-1, shape[2]))
        result = result._replace(attention=np.reshape(trace.attention, (*shape, -1)))
        return result, np.reshape(trace.copied, shape)

    def articles(self, texts: Sequence[str], locations: Locations = None) -> list[Article]:
        """Encode texts for the model.

        Args:
            texts: texts to summarize.
            locations: location of each text for error messages; by default "source 0" and so on.

        Raises:
            ValueError: if a text is empty, or too long without `truncate_source`.
        """
        texts = [check_text(*pair) for pair in add_locations(texts, locations)]
        sources = [self.source_prefix + text for text in texts]
        all_ids = self.tokenizer.encode(sources)
        empty = self._find_empty(texts, all_ids)
        for is_empty, (location, ids) in zip(empty, add_locations(all_ids, locations), strict=True):
            if is_empty:
                raise ValueError(f"{location}: the text is empty. Remove it or write a sentence.")
            length = len(ids) + self.num_special_tokens
            if length > self.max_source_length and not self.truncate_source:
                hint = ", or truncate it (data.truncate_source=true, task.truncate_source = True)"
                raise self._limit_error(location, f"{length} tokens", "max_source_length", hint)
        encoded = encode_for_copying(self.tokenizer, sources, None, self.copies, self._longest)
        parts = zip(sources, all_ids, encoded.sources, encoded.words, strict=True)
        return [
            self._make_article(text, ids, words, truncated=len(whole) > len(ids))
            for text, whole, ids, words in parts
        ]

    def _make_article(
        self, text: str, ids: list[int], words: tuple[str, ...], truncated: bool
    ) -> Article:
        """Return an article from its token ids without special tokens."""
        surfaces = self.tokenizer.surfaces(text)[: len(ids)]
        start, end = self.special_ids
        if isinstance(self.tokenizer, Tokenizer):  # shows out-of-vocabulary words
            labels = [surface.removeprefix(MARK) or MARK for surface in surfaces]
        else:
            labels = self.tokenizer.tokens(ids)
        start_labels, end_labels = self.tokenizer.tokens(start), self.tokenizer.tokens(end)
        return Article(
            [*start, *ids, *end],
            words,
            [*[""] * len(start), *surfaces, *[""] * len(end)],
            (*start_labels, *labels, *end_labels),
            truncated,
        )

    def check_sources(self, sources: Sequence[str], locations: Locations = None) -> None:
        """Raise ValueError for a text that `predict` rejects; arguments as in `articles`."""
        self.articles(sources, locations)

    def find_unknown_characters(self, text: str) -> list[str]:
        """Return the characters that no token contains; none if unknown words can be copied."""
        return [] if self.copies else find_unknown_characters(self.tokenizer, text)

    def _make_result(
        self, article: Article, hypothesis: Hypothesis, copied: np.ndarray, options: SearchOptions
    ) -> Summary:
        """Return a summary with the origins of its words, from the copy probabilities `(L,)`."""
        ids, weights, fields = hypothesis
        weights = np.array(np.asarray(weights)[:, : len(article.ids)])
        shares = tuple(copied[: len(ids)].tolist())
        size = self.tokenizer.vocabulary_size
        known_ids = [UNKNOWN if token >= size else token for token in ids]
        words = self._list_unknown_words(article, ids, weights, options.replace_unknown)
        return Summary(
            text=self.tokenizer.decode(known_ids, words),
            tokens=tuple(self.tokenizer.tokens(known_ids, words)),
            source_tokens=article.labels,
            attention=weights,
            copied=shares,
            origins=origins(article.ids, ids, weights, shares),
            unknown=find_unknown(article.ids),
            source_truncated=article.truncated,
            **fields,
        )

    def _list_unknown_words(
        self, article: Article, ids: list[int], weights: np.ndarray, replace_unknown: bool
    ) -> list[str]:
        """Return the words of the out-of-vocabulary tokens, in order.

        A token without a word in the article, which an option may force, becomes `<unk>`.
        """
        unknown, size = self.tokenizer.decode_one(UNKNOWN), self.tokenizer.vocabulary_size
        own, words = dict(enumerate(article.words, size)), []
        for token, row_weights in zip(ids, weights, strict=True):
            if token == UNKNOWN and replace_unknown:
                words.append(article.surfaces[int(np.argmax(row_weights))])
            elif token == UNKNOWN or token >= size:
                words.append(own.get(token, unknown))
        return words

    # Evaluation.

    def evaluate(self, examples: TextPairs, **search_overrides: Any) -> dict[str, Any]:
        """Compute ROUGE, exact match, and repetition, copying and fact scores on `examples`.

        Returns:
            The metrics of `tasks.scoring.score_summaries`, `copied_tokens` (copied tokens in
            percent), `truncated` (summaries without an end token) and
            `sources_truncated` (truncated texts).
        """
        locations = [f"{examples.origin}, pair {row}" for row in range(1, len(examples) + 1)]
        self.check_sources(examples.sources, locations)
        results = self.predict(examples.sources, **search_overrides)
        references = examples.references or [(target,) for target in examples.targets]
        texts, cased = [result.text for result in results], not self.tokenizer.lowercase
        report = score_summaries(texts, references, examples.sources, cased)
        copied = [origin >= 0 for result in results for origin in result.origins]
        return {
            **report,
            "copied_tokens": 100.0 * sum(copied) / max(len(copied), 1),
            "truncated": sum(result.truncated for result in results),
            "sources_truncated": sum(result.source_truncated for result in results),
        }

    # Reports and export.

    def plot(self, result: Summary, path: str | Path | None = None) -> Any:
        """Return a figure of the source text, shaded by attention; see `Task.plot`."""
        from attention_zoo import inspection

        check_plottable(result)
        return inspection.plot_summary_heat(result, path)

    def write_report(self, results: Sequence[Summary], path: str | Path) -> None:
        """Write summaries with their copied words and attention as one HTML page."""
        from attention_zoo import inspection

        inspection.write_summary_page(results, path)

    def get_saved_fields(self) -> dict[str, Any]:
        """Return the prefix of sources, and whether they get an end token."""
        return {"source_prefix": self.source_prefix, "add_source_end": self.add_source_end}

    @classmethod
    def load_fields(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return the prefix of sources, and whether they get an end token."""
        defaults = {"source_prefix": "", "add_source_end": False}
        return {name: content.get(name, default) for name, default in defaults.items()}

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the summarizer as a `tf.Module` that takes strings."""
        from attention_zoo.tasks.summarization.export import SummarizationModule

        return SummarizationModule(self, check_rules(rules))
