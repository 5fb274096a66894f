"""Translation of sentences from one language to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import keras
import numpy as np

from attention_zoo.data import TextPairs, Tokenizer
from attention_zoo.data.tokenizers.vocabulary import END, PAD, UNKNOWN
from attention_zoo.decoding import Rule, SearchOptions, SearchResult
from attention_zoo.decoding.plan import Vocabulary, check_prefix
from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.tasks.base import TASKS, Result, rules_for_all
from attention_zoo.tasks.building import TokenizerOptions, build_model, train_recipe_tokenizer
from attention_zoo.tasks.scoring import score_translations
from attention_zoo.tasks.text_inputs import bucket, padded, same_width, unknown_characters
from attention_zoo.tasks.text_pairs import Sides, TextPairTask


@dataclass(frozen=True, kw_only=True)
class TranslationResult(Result):
    """A translation with its attention weights.

    Args:
        text: the translation.
        score: the score of the hypothesis: log-probability with length and coverage penalty.
        tokens: readable labels of the translation's tokens (T), without the end token.
        token_scores: log-probability of each token (T), and of the end token if there is one.
        source_tokens: readable labels of the source's tokens (S).
        attention: attention weights (T, S), or None for a model without attention.
        unknown, truncated, alternatives: see `Result`.
    """

    token_scores: tuple[float, ...]


class _Source(NamedTuple):
    """A text to translate: its token ids, and the token ids of its target prefix."""

    text: str
    ids: list[int]
    prefix: list[int]


@TASKS.register("translation")
class Translation(TextPairTask):
    """Translation: a model with a source and a target tokenizer. Inputs and outputs are strings.

    Args:
        model: a translator of `attention_zoo.models`.
        source_tokenizer, target_tokenizer: `data.Tokenizer` of each side.
        search: default search options of `predict`.
        max_source_length, max_target_length: maximum number of tokens of a source, and of a target
            with its end token. Training drops longer pairs; `predict` rejects a longer source.
    """

    name: ClassVar[str] = "translation"
    metric_names: ClassVar[tuple[str, ...]] = ("bleu", "chrf", "exact_match")
    tokenizer_names: ClassVar[tuple[str, ...]] = ("source_tokenizer", "target_tokenizer")
    card_metrics: ClassVar[Mapping[str, str]] = {
        "search": "search",
        "sentences": "sentences",
        "bleu": "BLEU",
        "chrf": "chrF",
        "exact_match": "exact match, %",
    }

    def __init__(
        self,
        model: keras.Model,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        max_source_length: int = 256,
        max_target_length: int = 256,
    ) -> None:
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.search = search or SearchOptions()
        self.max_source_length = max_source_length
        self.max_target_length = max_target_length

    @classmethod
    def from_recipe(cls, recipe: Any, train: TextPairs) -> Self:
        """Build a translator and train its source and target tokenizers."""
        options: TokenizerOptions = recipe.tokenizer
        sides = [train.sources, train.targets]
        if options.shared:
            sides = [[*train.sources, *train.targets]] * 2
        source, target = (train_recipe_tokenizer(options, texts) for texts in sides)
        model = build_model(
            recipe.model,
            source_vocabulary_size=source.vocabulary_size,
            target_vocabulary_size=target.vocabulary_size,
        )
        return cls(model, source, target, **cls.recipe_options(recipe))

    # Training.

    def encode_pairs(self, examples: TextPairs) -> Sides:
        """Return the token ids of both sides."""
        sources = self.source_tokenizer.encode(examples.sources)
        return sources, self.target_tokenizer.encode(examples.targets)

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the cross-entropy loss per target token."""
        return SequenceCrossEntropy(label_smoothing=label_smoothing)

    # Prediction.

    def predict(
        self,
        texts: Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        rules: Sequence[Rule] = (),
        **search_overrides: Any,
    ) -> list[TranslationResult]:
        """Translate each text, in order; a result does not depend on the other texts.

        Args:
            texts: sentences in the source language.
            prefixes: target prefix of each translation, "" for none; None for no prefixes.
            rules: additional decoding rules (`decoding.Rule`), the same for all texts.
            **search_overrides: fields of `SearchOptions` to override in this call.

        Raises:
            ValueError: if a text is empty or longer than `max_source_length` tokens; prefixes are
                not one text for each source, or conflict with the options; an option is unknown or
                conflicts with another; or the search finds no translation.
        """
        if isinstance(texts, str):
            raise ValueError("predict takes a list of sentences; write predict([text])")
        rules = rules_for_all(rules)
        options = self.search.override(**search_overrides)
        sources = [
            _Source(text, ids, starts)
            for text, ids, starts in zip(
                texts,
                self.encode_sources(texts),
                self._encode_prefixes(prefixes, len(texts)),
                strict=True,
            )
        ]
        self._check_prefixes(sources, options)
        answers: dict[int, TranslationResult] = {}
        for rows, width in same_width([s.ids for s in sources], options.batch_size):
            found = self._search([sources[row] for row in rows], width, options, rules)
            for row, answer in zip(rows, found, strict=True):
                if answer is None:
                    raise ValueError(
                        f"source {row}: the search found no translation; relax the search options"
                    )
                answers[row] = answer
        return [answers[row] for row in range(len(sources))]

    def _encode_prefixes(self, prefixes: Sequence[str] | None, count: int) -> list[list[int]]:
        if prefixes is None:
            return [[]] * count
        prefixes = list(prefixes) if not isinstance(prefixes, str) else []
        if len(prefixes) != count or not all(isinstance(one, str) for one in prefixes):
            raise ValueError(f"prefixes: a text for each of the {count} texts is needed")
        return self.target_tokenizer.encode(prefixes) if count else []

    def _check_prefixes(self, sources: list[_Source], options: SearchOptions) -> None:
        """Raise ValueError for a prefix that conflicts with the options or the length limit."""
        longest = max((len(source.prefix) for source in sources), default=0)
        if not longest:
            return
        prefixes = padded([source.prefix for source in sources], len(sources), longest)
        size = self.target_tokenizer.vocabulary_size
        check_prefix(prefixes, options, Vocabulary(size, END, PAD))
        for row, source in enumerate(sources):
            limit = options.limit(len(source.ids))
            if len(source.prefix) > limit:
                raise ValueError(
                    f"prefix of source {row} has {len(source.prefix)} tokens, but its "
                    f"translation may have {limit}; raise max_length or shorten it"
                )

    def check_sources(self, sources: Sequence[str], locations: Sequence[str] | None = None) -> None:
        """Raise ValueError for a text that `predict` rejects; arguments as in `encode_sources`."""
        self.encode_sources(sources, locations)

    def encode_sources(
        self, texts: Sequence[str], locations: Sequence[str] | None = None
    ) -> list[list[int]]:
        """Return the token ids of each text.

        Args:
            texts: sentences in the source language.
            locations: location of each text for error messages; by default "source 0" and so on.

        Raises:
            ValueError: if a text is empty or too long.
        """
        encoded = self.source_tokenizer.encode(list(texts)) if len(texts) else []
        for row, ids in enumerate(encoded):
            if 0 < len(ids) <= self.max_source_length:
                continue
            location = locations[row] if locations else f"source {row}"
            if not ids:
                raise ValueError(f"{location}: is empty; there is nothing to translate in it")
            raise ValueError(
                f"{location}: {len(ids)} tokens, the limit is {self.max_source_length};"
                " shorten it or raise the limit (data.max_source_length on the command line,"
                " task.max_source_length in Python)"
            )
        return encoded

    def unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that no token of the source vocabulary contains."""
        return unknown_characters(self.source_tokenizer, text)

    def _search(
        self,
        sources: list[_Source],
        width: int,
        options: SearchOptions,
        rules: Sequence[Rule],
    ) -> list[TranslationResult | None]:
        """Translate sources of at most `width` tokens; None if the search finds no translation."""
        size = min(options.batch_size, 2 ** (len(sources) - 1).bit_length())
        longest = max(len(source.prefix) for source in sources)
        result = self.model.compiled_search(
            padded([source.ids for source in sources], size, width),
            options,
            prefix=padded([s.prefix for s in sources], size, bucket(longest)) if longest else None,
            rules=rules,
        )
        return [
            self._answer(source, result, row, options.replace_unknown)
            for row, source in enumerate(sources)
        ]

    def _answer(
        self, source: _Source, result: SearchResult, row: int, replace_unknown: bool
    ) -> TranslationResult | None:
        """Return the translation of one source, from a row of the search result."""
        source_tokens = tuple(self.source_tokenizer.tokens(source.ids))
        unknown = tuple(at for at, token in enumerate(source.ids) if token == UNKNOWN)
        answers = []
        for n, length in enumerate(result.lengths[row]):
            if length == 0:  # the search found fewer than `n_best`
                break
            finished = bool(result.finished[row, n])
            words = int(length) - finished
            ids = [int(token) for token in result.tokens[row, n, :words]]
            weights = None
            if result.attention is not None:
                weights = result.attention[row, n, :words, : len(source.ids)]
            copied = self._copied(source, ids, weights) if replace_unknown else None
            answer = TranslationResult(
                text=self.target_tokenizer.decode(ids, copied),
                score=float(result.scores[row, n]),
                tokens=tuple(self.target_tokenizer.tokens(ids, copied)),
                token_scores=tuple(map(float, result.token_scores[row, n, :length])),
                source_tokens=source_tokens,
                attention=weights,
                truncated=not finished,
                unknown=unknown,
            )
            answers.append(answer)
        if not answers:
            return None
        best, *others = answers
        return replace(best, alternatives=tuple(others))

    def _copied(self, source: _Source, ids: list[int], weights: Any) -> list[str]:
        """Return, for each unknown target token, the source piece with the largest weight."""
        positions = [at for at, token in enumerate(ids) if token == UNKNOWN]
        if not positions:
            return []
        pieces = self.source_tokenizer.surfaces(source.text)
        return [pieces[int(np.argmax(weights[at]))] for at in positions]

    # Evaluation.

    def evaluate(self, examples: TextPairs, **search_overrides: Any) -> dict[str, Any]:
        """Compute BLEU, chrF and exact match on `examples`, also by source length.

        Returns:
            `sentences`, `bleu`, `chrf` and `exact_match` (these three 0 to 100), sacrebleu's
            signatures, `by_source_length` (in tokens), and `truncated` (translations without an end
            token).
        """
        locations = [f"{examples.origin}, pair {row}" for row in range(1, len(examples) + 1)]
        lengths = [len(ids) for ids in self.encode_sources(examples.sources, locations)]
        answers = self.predict(examples.sources, **search_overrides)
        report = score_translations([a.text for a in answers], examples.targets, lengths)
        return {**report, "truncated": sum(answer.truncated for answer in answers)}

    # Export.

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the translator as a `tf.Module` that takes strings."""
        from attention_zoo.tasks.translation.export import ServedTranslation

        return ServedTranslation(self, rules_for_all(rules))
