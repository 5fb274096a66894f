"""Summarization: abstractive summaries of texts, with copied out-of-vocabulary words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import keras
import numpy as np

from attention_zoo import models
from attention_zoo.data import TextPairs, Tokenizer, encode_for_copying
from attention_zoo.data.tokenizers.tokenizer import MARK
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.decoding import Rule, SearchOptions, SearchResult
from attention_zoo.tasks.base import TASKS, rules_for_all
from attention_zoo.tasks.building import build_model, naming_preset, train_recipe_tokenizer
from attention_zoo.tasks.scoring import score_summaries
from attention_zoo.tasks.summarization.result import Summary, origins
from attention_zoo.tasks.text_inputs import padded, same_width, unknown_characters
from attention_zoo.tasks.text_pairs import Sides, TextPairTask

WIDTH = 32  # sources are padded to multiples of this, so that many share a shape


class Article(NamedTuple):
    """An encoded text to summarize.

    ids: token ids (S), including the extended ids of out-of-vocabulary words. words: the words of
    the extended ids, in order. surfaces: the piece of text of each token (S). truncated: whether
    the text was truncated.
    """

    ids: list[int]
    words: tuple[str, ...]
    surfaces: list[str]
    truncated: bool


@TASKS.register("summarization")
class Summarization(TextPairTask):
    """Summarization: a model and a tokenizer of both sides. Inputs and outputs are strings.

    Args:
        model: a `models.CopyingMixin`.
        tokenizer: `data.Tokenizer` with the model's vocabulary.
        search: default search options of `predict`. Without a `max_length` or `max_length_ratio`,
            the limit is `max_target_length`.
        max_source_length, max_target_length: maximum number of tokens of a text, and of a summary
            with its end token. Training drops longer pairs; `predict` rejects a longer text.
        truncate_source: truncate longer texts to `max_source_length` tokens instead, in training
            too. A result's `source_truncated` reports it.

    Raises:
        ValueError: if the model is not a `models.CopyingMixin`, or its vocabulary size is not the
            tokenizer's.
    """

    name: ClassVar[str] = "summarization"
    metric_names: ClassVar[tuple[str, ...]] = ("rouge1", "rouge2", "rougeL", "exact_match")
    switches: ClassVar[tuple[str, ...]] = ("truncate_source",)
    tokenizer_kind: ClassVar[str] = "word"
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
        tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        max_source_length: int = 400,
        max_target_length: int = 100,
        truncate_source: bool = False,
    ) -> None:
        if not isinstance(model, models.CopyingMixin):
            raise ValueError(
                "model must be a models.CopyingMixin, such as models.PointerGenerator, got"
                f" {type(model).__name__}"
            )
        if model.vocabulary_size != tokenizer.vocabulary_size:
            raise ValueError(
                f"the tokenizer has {tokenizer.vocabulary_size} tokens, but the model's"
                f" vocabulary_size is {model.vocabulary_size}; use the same size, from which ids of"
                " copied words start"
            )
        self.model: Any = model
        self.tokenizer = tokenizer
        self.search = search or SearchOptions()
        self.max_source_length = max_source_length
        self.max_target_length = max_target_length
        self.truncate_source = truncate_source

    @classmethod
    def from_recipe(cls, recipe: Any, train: TextPairs) -> Self:
        """Build a summarizer and train one tokenizer for source and target."""
        tokenizer = train_recipe_tokenizer(recipe.tokenizer, [*train.sources, *train.targets])
        model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
        with naming_preset(recipe.model):
            return cls(model, tokenizer, **cls.recipe_options(recipe))

    # Training.

    def encode_pairs(self, examples: TextPairs) -> Sides:
        """Return token ids of both sides, including the extended ids of words to copy."""
        sides = (examples.sources, examples.targets)
        found = encode_for_copying(self.tokenizer, *sides, self.model.copies, self._longest)
        return found.sources, found.targets

    @property
    def _longest(self) -> int | None:
        """Length to which sources are truncated; None for no truncation."""
        return self.max_source_length if self.truncate_source else None

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the model's loss: `CopyCrossEntropy` if it copies, else `SequenceCrossEntropy`."""
        made: keras.losses.Loss = self.model.make_loss(label_smoothing)
        return made

    # Prediction.

    def predict(
        self, texts: Sequence[str], *, rules: Sequence[Rule] = (), **search_overrides: Any
    ) -> list[Summary]:
        """Summarize each text, in order; a result does not depend on the other texts.

        Args:
            texts: texts to summarize.
            rules: additional decoding rules (`decoding.Rule`), the same for all texts.
            **search_overrides: fields of `SearchOptions` to override in this call.

        Raises:
            ValueError: if a text is empty; it is longer than `max_source_length` tokens, without
                `truncate_source`; an option is unknown or conflicts with another; or the search
                finds no summary.
        """
        if isinstance(texts, str):
            raise ValueError("predict takes a list of texts; write predict([text])")
        rules = rules_for_all(rules)
        options = self.search_options(**search_overrides)
        articles = self.articles(texts)
        answers: dict[int, Summary] = {}
        for rows, width in same_width([a.ids for a in articles], options.batch_size, WIDTH):
            found = self._search([articles[row] for row in rows], width, options, rules)
            for row, answer in zip(rows, found, strict=True):
                if answer is None:
                    raise ValueError(
                        f"source {row}: the search found no summary; relax the search options"
                    )
                answers[row] = answer
        return [answers[row] for row in range(len(articles))]

    def search_options(self, **changes: Any) -> SearchOptions:
        """Return the search options with overrides, and with a length limit in any case."""
        options = self.search.override(**changes)
        if options.max_length is None and options.max_length_ratio is None:
            return options.override(max_length=self.max_target_length)
        return options

    def articles(
        self, texts: Sequence[str], locations: Sequence[str] | None = None
    ) -> list[Article]:
        """Encode texts for the model.

        Args:
            texts: texts to summarize.
            locations: location of each text for error messages; by default "source 0" and so on.

        Raises:
            ValueError: if a text is empty, or too long without `truncate_source`.
        """
        texts = list(texts)
        lengths = [len(ids) for ids in self.tokenizer.encode(texts)]
        for row, length in enumerate(lengths):
            self._check_length(length, locations[row] if locations else f"source {row}")
        ids, _, words = encode_for_copying(
            self.tokenizer, texts, None, self.model.copies, self._longest
        )
        return [
            Article(ids[row], words[row], self.tokenizer.surfaces(text)[: len(ids[row])], truncated)
            for row, text in enumerate(texts)
            for truncated in [lengths[row] > len(ids[row])]
        ]

    def _check_length(self, length: int, location: str) -> None:
        if not length:
            raise ValueError(f"{location}: is empty; there is nothing to summarize in it")
        if length > self.max_source_length and not self.truncate_source:
            raise ValueError(
                f"{location}: {length} tokens, the limit is {self.max_source_length}; shorten it,"
                " raise the limit (data.max_source_length on the command line,"
                " task.max_source_length in Python) or truncate it"
                " (data.truncate_source=true, task.truncate_source = True)"
            )

    def check_sources(self, sources: Sequence[str], locations: Sequence[str] | None = None) -> None:
        """Raise ValueError for a text that `predict` rejects; arguments as in `articles`."""
        self.articles(sources, locations)

    def unknown_characters(self, text: str) -> list[str]:
        """Return the characters that no token contains; none if unknown words can be copied."""
        return [] if self.model.copies else unknown_characters(self.tokenizer, text)

    def _search(
        self, articles: list[Article], width: int, options: SearchOptions, rules: Sequence[Rule]
    ) -> Iterator[Summary | None]:
        """Yield summaries of articles of at most `width` tokens; None if the search finds none."""
        size = min(options.batch_size, 2 ** (len(articles) - 1).bit_length())
        source = padded([article.ids for article in articles], size, width)
        result = self.model.compiled_search(source, options, rules=rules)
        shape = result.tokens.shape
        trace = self.model.compiled_trace(
            np.repeat(source, shape[1], axis=0), result.tokens.reshape(-1, shape[2])
        )
        attention = np.reshape(trace.attention, (*shape, width))
        copied = np.reshape(trace.copied, shape)
        for row, article in enumerate(articles):
            answers = [
                self._answer(article, result, attention, copied, (row, n), options.replace_unknown)
                for n, length in enumerate(result.lengths[row])
                if length  # 0 if the search found fewer than `n_best`
            ]
            yield replace(answers[0], alternatives=tuple(answers[1:])) if answers else None

    def _answer(
        self,
        article: Article,
        result: SearchResult,
        attention: np.ndarray,
        copied: np.ndarray,
        at: tuple[int, int],
        replace_unknown: bool,
    ) -> Summary:
        """Return the summary at index (row, rank) of the result, with the origins of its words."""
        length, finished = int(result.lengths[at]), bool(result.finished[at])
        ids = [int(token) for token in result.tokens[at][: length - finished]]
        weights = attention[at][: len(ids), : len(article.ids)]
        shares = tuple(map(float, copied[at][: len(ids)]))
        written = [UNKNOWN if token >= self.model.vocabulary_size else token for token in ids]
        words = self._words(article, ids, weights, replace_unknown)
        return Summary(
            text=self.tokenizer.decode(written, words),
            score=float(result.scores[at]),
            tokens=tuple(self.tokenizer.tokens(written, words)),
            token_scores=tuple(map(float, result.token_scores[at][:length])),
            source_tokens=tuple(one.removeprefix(MARK) or MARK for one in article.surfaces),
            attention=weights,
            copied=shares,
            origins=origins(article.ids, ids, weights, shares),
            truncated=not finished,
            unknown=tuple(n for n, token in enumerate(article.ids) if token == UNKNOWN),
            source_truncated=article.truncated,
        )

    def _words(
        self, article: Article, ids: list[int], weights: np.ndarray, replace_unknown: bool
    ) -> list[str]:
        """Return the words of the out-of-vocabulary tokens, in order.

        A token without a word in the article, which an option may force, becomes `<unk>`.
        """
        unknown, size = self.tokenizer.decode_one(UNKNOWN), self.model.vocabulary_size
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
        answers = self.predict(examples.sources, **search_overrides)
        references = examples.references or [(target,) for target in examples.targets]
        texts, cased = [answer.text for answer in answers], not self.tokenizer.lowercase
        report = score_summaries(texts, references, examples.sources, cased)
        copied = [origin >= 0 for answer in answers for origin in answer.origins]
        return {
            **report,
            "copied_tokens": 100.0 * sum(copied) / max(len(copied), 1),
            "truncated": sum(answer.truncated for answer in answers),
            "sources_truncated": sum(answer.source_truncated for answer in answers),
        }

    # Reports and export.

    def plot(self, result: Summary, path: str | Path | None = None) -> Any:
        """Return a figure of the source text, shaded by attention; see `Task.plot`."""
        from attention_zoo import inspection

        return inspection.plot_summary_heat(result, path)

    def write_report(self, results: Sequence[Summary], path: str | Path) -> None:
        """Write summaries with their copied words and attention as one HTML page."""
        from attention_zoo import inspection

        inspection.write_summary_page(results, path)

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the summarizer as a `tf.Module` that takes strings."""
        from attention_zoo.tasks.summarization.export import ServedSummarization

        return ServedSummarization(self, rules_for_all(rules))
