"""Translation of sentences from one language to another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np
from numpy.typing import NDArray

from attention_zoo.data import TextPairs, Tokenizer
from attention_zoo.data.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer
from attention_zoo.data.tokenizers.vocabulary import END, MARK, PAD, UNKNOWN
from attention_zoo.decoding import Rule, SearchOptions, SearchResult
from attention_zoo.decoding.plan import Vocabulary, check_prefix
from attention_zoo.tasks.building import TokenizerOptions, build_model, load_or_train_tokenizers
from attention_zoo.tasks.generation import Hypothesis, read_hypotheses
from attention_zoo.tasks.inputs import (
    Locations,
    add_locations,
    check_rules,
    check_text,
    list_argument,
    list_inputs,
    name_rows,
    predict_rows,
)
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.scoring import score_translations
from attention_zoo.tasks.text_inputs import (
    find_unknown,
    find_unknown_characters,
    pad_batch,
    predict_by_width,
    round_up,
)
from attention_zoo.tasks.text_pairs import Sides, TextPairTask
from attention_zoo.tasks.translation.model_call import TranslationCallMixin
from attention_zoo.tasks.translation.result import TranslationResult
from attention_zoo.tasks.translation.sentences import SourceParts, join_results, split_source


@TASKS.register("translation")
class Translation(TranslationCallMixin, TextPairTask):
    """Translation task: a model, a source tokenizer and a target tokenizer.

    Args:
        model: a translator of `attention_zoo.models`.
        source_tokenizer, target_tokenizer: tokenizer of each side, from `data.load_tokenizer` or
            `data.train_tokenizer`.
        search: default search options of `predict`.
        max_source_length, max_target_length: maximum number of tokens of a source, and of a target
            with its end token. Training drops longer pairs; `predict` rejects a longer source, or
            splits it.
        add_source_end: whether to add the end token to a source, as Marian does; it counts as one
            of its tokens.
        split_long_texts: whether `predict` splits a longer source into sentences
            (`data.split_sentences`), translates each of them and joins the translations. The length
            limits then apply to each sentence, a prefix to the first one, and there are no
            alternatives. An exported task does not split sources.
    """

    name: ClassVar[str] = "translation"
    output_noun: ClassVar[str] = "translation"
    result_class = TranslationResult
    metric_names: ClassVar[tuple[str, ...]] = ("bleu", "chrf", "exact_match")
    tokenizer_names: ClassVar[tuple[str, ...]] = ("source_tokenizer", "target_tokenizer")
    metric_modules: ClassVar[tuple[str, ...]] = ("sacrebleu",)
    row_options: ClassVar[tuple[str, ...]] = ("prefixes",)
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
        source_tokenizer: Tokenizer | SentencePieceTokenizer,
        target_tokenizer: Tokenizer | SentencePieceTokenizer,
        search: SearchOptions | None = None,
        max_source_length: int = 256,
        max_target_length: int = 256,
        add_source_end: bool = False,
        split_long_texts: bool = False,
    ) -> None:
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.search = search or SearchOptions()
        self.max_source_length = max_source_length
        self.max_target_length = max_target_length
        self.add_source_end = bool(add_source_end)
        self.split_long_texts = bool(split_long_texts)

    @classmethod
    def from_recipe(cls, recipe: Any, train: TextPairs) -> Self:
        """Build a translator and train its source and target tokenizers."""
        options: TokenizerOptions = recipe.tokenizer
        sides = [["sources", "targets"]] if options.shared else [["sources"], ["targets"]]
        tokenizers = load_or_train_tokenizers(options, train, sides)
        source, target = tokenizers[0], tokenizers[-1]
        model = build_model(
            recipe.model,
            source_vocabulary_size=source.vocabulary_size,
            target_vocabulary_size=target.vocabulary_size,
        )
        return cls(model, source, target, **cls.recipe_options(recipe))

    # Training.

    def encode_pairs(self, examples: TextPairs) -> Sides:
        """Return the token ids of both sides."""
        sources = self.source_tokenizer.encode_flat(examples.sources)
        if self.add_source_end:
            sources = sources.append(self.source_tokenizer.end)
        return sources, self.target_tokenizer.encode_flat(examples.targets)

    @property
    def encoding_options(self) -> dict[str, Any]:
        return {**super().encoding_options, "add_source_end": self.add_source_end}

    # Prediction.

    def predict(
        self,
        texts: Iterable[str],
        *,
        prefixes: Iterable[str] | None = None,
        rules: Sequence[Rule] = (),
        on_error: str = "raise",
        **search_overrides: Any,
    ) -> list[TranslationResult]:
        """Translate each text, in order; a result does not depend on the other texts.

        Args:
            texts: texts in the source language.
            prefixes: target prefix of each translation, "" for none; None for no prefixes.
            rules: additional decoding rules (`decoding.Rule`), the same for all texts.
            on_error: "raise", or "skip": see `Task.predict`.
            **search_overrides: fields of `SearchOptions` to override in this call.

        Raises:
            ValueError: if a text is empty, longer than `max_source_length` tokens (or a sentence of
                it, with `split_long_texts`) or starts with an unknown language code; the number of
                prefixes differs from the number of texts; a prefix has unknown words or conflicts
                with the options; an option is unknown or conflicts with another; or the search
                finds no translation.
        """
        texts, rules = list_inputs(texts, "text"), check_rules(rules)
        options = self.search_options(**search_overrides)
        starts = self._list_prefixes(prefixes, len(texts))

        def prepare(rows: list[int]) -> tuple[list[SourceParts], list[list[int]]]:
            parts = self.encode_parts([texts[row] for row in rows], name_rows(rows))
            return parts, self._encode_prefixes(
                starts, rows, [part.ids[0] for part in parts], options
            )

        def translate(rows: list[int], encoded: Any) -> Iterator[TranslationResult]:
            parts, prefix_ids = encoded
            sentences = [text for part in parts for text in part.texts]
            sources = [ids for part in parts for ids in part.ids]
            prefixes = [
                ids
                for part, prefix in zip(parts, prefix_ids, strict=True)
                for ids in (prefix, *[[]] * (len(part.ids) - 1))
            ]

            def translate_batch(rows: list[int], source: np.ndarray) -> Iterator[TranslationResult]:
                prefix = _pad_prefixes([prefixes[row] for row in rows], len(source))
                result = self._run_search(source, options, rules, prefix)
                for index, row in enumerate(rows):
                    found = read_hypotheses(result, index)
                    results = self._make_results(sentences[row], sources[row], found, options)
                    yield self._rank(results, result.scores[index])

            results = iter(predict_by_width(sources, options.batch_size, translate_batch))
            return (join_results([*islice(results, len(part.texts))]) for part in parts)

        return predict_rows(len(texts), on_error, self.result_class, prepare, translate)

    def _list_prefixes(self, prefixes: Iterable[str] | None, count: int) -> list[str]:
        """Return one prefix for each text; ValueError if there are more or fewer."""
        if prefixes is None:
            return [""] * count
        prefixes = list_argument("prefixes", prefixes, "texts")
        if len(prefixes) != count:
            raise ValueError(
                f"prefixes must have one text for each of the {count} texts, got {len(prefixes)}"
            )
        return prefixes

    def _encode_prefixes(
        self,
        prefixes: list[str],
        rows: list[int],
        sources: list[list[int]],
        options: SearchOptions,
    ) -> list[list[int]]:
        """Return the token ids of the prefixes of some rows.

        Raises:
            ValueError: if a prefix has unknown words, or conflicts with the options or the length
                limit.
        """
        texts = [check_text(f"source {row}: the prefix", prefixes[row]) for row in rows]
        encoded = self.target_tokenizer.encode(texts)
        vocabulary = Vocabulary(self.target_tokenizer.vocabulary_size, END, PAD)
        for row, prefix, source in zip(rows, encoded, sources, strict=True):
            if not prefix:
                continue
            name = f"source {row}: the prefix"
            limit = options.limit(len(source))
            if UNKNOWN in prefix:
                surfaces = self.target_tokenizer.surfaces(prefixes[row])
                words = [surfaces[at].removeprefix(MARK) for at in find_unknown(prefix)]
                raise ValueError(
                    f"{name} has words that are not in the target vocabulary:"
                    f" {', '.join(map(repr, words))}. Remove or replace them."
                )
            check_prefix(np.array([prefix]), options, vocabulary, [name])
            if len(prefix) > limit - options.force_end:
                end = ", and force_end needs the last position" if options.force_end else ""
                raise ValueError(
                    f"{name} has {len(prefix)} tokens, but the length limit is {limit}{end}."
                    " Shorten the prefix or raise max_length."
                )
        return encoded

    def _run_search(
        self,
        source: NDArray[Any],
        options: SearchOptions,
        rules: Sequence[Rule] = (),
        prefix: NDArray[np.int32] | None = None,
    ) -> SearchResult:
        """Return the hypotheses of a batch of sources, with a prefix for each, or None."""
        result: SearchResult = self.model.compiled_search(
            source, options, prefix=prefix, rules=rules
        )
        return result

    def check_sources(self, sources: Sequence[str], locations: Locations = None) -> None:
        """Raise ValueError for a text that `predict` rejects; arguments as in `encode_sources`."""
        self.encode_parts(sources, locations)

    def encode_sources(self, texts: Sequence[str], locations: Locations = None) -> list[list[int]]:
        """Return the token ids of each text.

        Args:
            texts: sentences in the source language.
            locations: location of each text for error messages; by default "source 0" and so on.

        Raises:
            ValueError: if a text is empty or too long, or starts with an unknown language code.
        """
        encoded = self._encode(texts, locations)
        for location, ids in add_locations(encoded, locations):
            if len(ids) > self.max_source_length:
                raise self._limit_error(location, f"{len(ids)} tokens", "max_source_length")
        return encoded

    def encode_parts(self, texts: Sequence[str], locations: Locations = None) -> list[SourceParts]:
        """Return the token ids of each text, or of its sentences if `predict` splits it.

        Arguments and errors as in `encode_sources`.
        """
        if not self.split_long_texts:
            encoded = self.encode_sources(texts, locations)
            return [SourceParts([text], [ids]) for text, ids in zip(texts, encoded, strict=True)]
        parts, encoded = list[SourceParts](), self._encode(texts, locations)
        for text, (location, ids) in zip(texts, add_locations(encoded, locations), strict=True):
            sentences, rows = [text], [ids]
            if len(ids) > self.max_source_length:
                sentences = split_source(text, self.source_tokenizer.find_language_code)
                names = [f"{location}: sentence {n}" for n in range(1, len(sentences) + 1)]
                rows = self.encode_sources(sentences, names)
            parts.append(SourceParts(sentences, rows))
        return parts

    def _encode(self, texts: Sequence[str], locations: Locations) -> list[list[int]]:
        """Return the token ids of each text, of any length; errors as in `encode_sources`."""
        texts = [check_text(*pair) for pair in add_locations(texts, locations)]
        known = self.source_tokenizer.language_codes
        for location, text in add_locations(texts, locations):
            code = self.source_tokenizer.find_language_code(text)
            if code and code not in known:
                codes = ", ".join(known) or "none"
                raise ValueError(f"{location}: unknown language code {code}. Known: {codes}.")
        encoded = self.source_tokenizer.encode(texts)
        for location, ids in add_locations(encoded, locations):
            if not ids:
                raise ValueError(f"{location}: the text is empty. Remove it or write a sentence.")
            if self.add_source_end:
                ids.append(self.source_tokenizer.end)
        return encoded

    def find_unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that no token of the source vocabulary contains."""
        code = self.source_tokenizer.find_language_code(text)
        return find_unknown_characters(self.source_tokenizer, text.removeprefix(code))

    def _make_results(
        self, text: str, source: list[int], hypotheses: Iterable[Hypothesis], options: SearchOptions
    ) -> Iterator[TranslationResult]:
        """Yield the translations of one source."""
        labels = tuple(self.source_tokenizer.tokens(source))
        for ids, weights, fields in hypotheses:
            weights = None if weights is None else weights[:, : len(source)].copy()
            copied = self._copy_unknown(text, ids, weights) if options.replace_unknown else None
            yield TranslationResult(
                text=self.target_tokenizer.decode(ids, copied),
                tokens=tuple(self.target_tokenizer.tokens(ids, copied)),
                source_tokens=labels,
                attention=weights,
                unknown=find_unknown(source),
                **fields,
            )

    def _copy_unknown(self, text: str, ids: list[int], weights: Any) -> list[str]:
        """Return the text of the source token with the largest weight, for each unknown token."""
        positions = find_unknown(ids)
        source_texts = self.source_tokenizer.surfaces(text) if positions else []
        return [source_texts[int(np.argmax(weights[position]))] for position in positions]

    # Evaluation.

    def evaluate(self, examples: TextPairs, **search_overrides: Any) -> dict[str, Any]:
        """Compute BLEU, chrF and exact match on `examples`, also by source length.

        Returns:
            `sentences`; `bleu`, `chrf` and `exact_match`, from 0 to 100; sacrebleu's signatures;
            `by_source_length` (in tokens); and `truncated`, the number of translations without an
            end token.
        """
        locations = [f"{examples.origin}, pair {row}" for row in range(1, len(examples) + 1)]
        parts = self.encode_parts(examples.sources, locations)
        lengths = [sum(map(len, part.ids)) for part in parts]
        results = self.predict(examples.sources, **search_overrides)
        texts = [result.text for result in results]
        report = score_translations(texts, examples.targets, lengths)
        return {**report, "truncated": sum(result.truncated for result in results)}

    # Reports, saving and export.

    def write_report(self, results: Sequence[TranslationResult], path: str | Path) -> None:
        """Write translations with their attention as one HTML page."""
        from attention_zoo import inspection

        inspection.write_translation_page(results, path)

    def get_saved_fields(self) -> dict[str, Any]:
        """Return whether sources get an end token, and whether long ones are split."""
        return {"add_source_end": self.add_source_end, "split_long_texts": self.split_long_texts}

    @classmethod
    def load_fields(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return whether sources get an end token, and whether long ones are split."""
        names = ("add_source_end", "split_long_texts")
        return {name: content.get(name, False) for name in names}

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the translator as a `tf.Module` that takes strings."""
        from attention_zoo.tasks.translation.export import TranslationModule

        return TranslationModule(self, check_rules(rules))


def _pad_prefixes(prefixes: list[list[int]], size: int) -> NDArray[np.int32] | None:
    """Pad the prefixes of a batch to `(size, P)`; return None if all are empty."""
    width = round_up(max(map(len, prefixes)))
    return pad_batch(prefixes, size, width) if width else None
