"""Masked language modeling: predict the tokens at `[MASK]`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from attention_zoo import models
from attention_zoo.data import MaskedBatches, MaskingIds, TextLines, Tokenizer
from attention_zoo.data.tokenizers.vocabulary import PAD
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.ops import whole_number
from attention_zoo.tasks.building import build_model, load_or_train_tokenizer
from attention_zoo.tasks.inputs import (
    NAN_LOGITS,
    Locations,
    add_locations,
    list_inputs,
    name_rows,
    predict_rows,
    refuse_rules,
)
from attention_zoo.tasks.masked_language_modeling.masks import MASK, PRIVATE_USE, get_default_top
from attention_zoo.tasks.progress import report_predicted
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.result import Result, rank_results
from attention_zoo.tasks.single_text import SingleTextTask
from attention_zoo.tasks.text_inputs import find_unknown, group_by_width, pad_batch


@dataclass(frozen=True)
class TokenPrediction:
    """A predicted token at a mask.

    Args:
        token: readable label of the token.
        probability: its probability, 0 to 1.
    """

    token: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class FillMaskResult(Result):
    """A text with its masks filled.

    Args:
        text: the filled text as decoded by the tokenizer.
        score: sum of the log probabilities of the filled tokens; masks are predicted independently.
        predictions: the most probable tokens of each mask, best first.
        tokens: readable labels of the filled text's tokens.
        source_tokens: readable labels of the input text's tokens.
        unknown: positions of unknown tokens in `source_tokens`.
        alternatives: the text with the second best token at every mask, then the third, and so on.
    """

    predictions: tuple[tuple[TokenPrediction, ...], ...] = ()


@TASKS.register("masked_language_modeling")
class MaskedLanguageModeling(SingleTextTask):
    """Masked language modeling: a BERT with its prediction head, and its tokenizer.

    If the tokenizer has no mask token, the mask gets the next id after its vocabulary. The model's
    vocabulary then needs one token more than the tokenizer's.

    Args:
        model: a `models.MaskedLM`.
        tokenizer: `data.Tokenizer`, or a public one.
        search: only `n_best` and `batch_size` are used; there is no search.
        max_length: maximum number of tokens of a text, start and end tokens included. Training
            drops longer texts; `predict` and `evaluate` reject them.

    Raises:
        ValueError: if the model is not a `models.MaskedLM`, or its vocabulary is too small.
    """

    name: ClassVar[str] = "masked_language_modeling"
    metric_names: ClassVar[tuple[str, ...]] = ("masked_accuracy",)
    uses_beam_search: ClassVar[bool] = False
    used_search_options = ("n_best", "batch_size")
    evaluation_search_options = ("batch_size",)
    result_class = FillMaskResult
    card_metrics: ClassVar[Mapping[str, str]] = {
        "lines": "lines",
        "masked": "masked tokens",
        "masked_accuracy": "masked-token accuracy, %",
        "perplexity": "perplexity per masked token",
    }

    model_class = models.MaskedLM
    special_tokens = "the start and end tokens"
    num_special_tokens = 2

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        max_length: int = 256,
    ) -> None:
        super().__init__(model, tokenizer, search, max_length)
        self.mask, size = mask_id(tokenizer), count_tokens(tokenizer)
        known = self.model.bert.settings["vocabulary_size"]
        if size > known:
            raise ValueError(
                f"the tokenizer has {tokenizer.vocabulary_size} tokens and the mask token has id"
                f" {self.mask}, but the model's vocabulary_size is {known}; use at least {size}"
            )
        special = {tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end, self.mask}
        self.candidate_tokens = np.setdiff1d(range(tokenizer.vocabulary_size), list(special))

    @classmethod
    def from_recipe(cls, recipe: Any, train: TextLines) -> Self:
        """Build a masked language model around a BERT and train its tokenizer."""
        tokenizer = load_or_train_tokenizer(recipe.tokenizer, train, ["texts"])
        size = count_tokens(tokenizer)
        bert = build_model(recipe.model, vocabulary_size=size, use_pooler=False)
        return cls(models.MaskedLM(bert), tokenizer, **cls.recipe_options(recipe))

    # Training.

    def make_batches(self, examples: TextLines, batch_size: int, seed: int) -> MaskedBatches:
        """Return batches of masked lines; lines over the length limit are dropped.

        Raises:
            ValueError: if no line is left.
        """
        encoded, options = self._encode_corpus(examples)
        return MaskedBatches(encoded["lines"], self._masking_ids, batch_size, seed, **options)

    @property
    def _masking_ids(self) -> MaskingIds:
        tokenizer = self.tokenizer
        return MaskingIds(tokenizer.start, tokenizer.end, self.mask, self.candidate_tokens)

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the cross-entropy loss per masked token."""
        return SequenceCrossEntropy(label_smoothing=label_smoothing)

    # Prediction.

    def predict(
        self,
        texts: Iterable[str],
        *,
        top: int | None = None,
        on_error: str = "raise",
        **search_overrides: Any,
    ) -> list[FillMaskResult]:
        """Fill the masks of each text, in order; a result does not depend on the other texts.

        Args:
            texts: texts that each contain `[MASK]`.
            top: number of tokens to predict for each mask; None for `n_best`, or 5 if that is 1.
            on_error: "raise", or "skip": see `Task.predict`.
            **search_overrides: `n_best` and `batch_size` for this call.

        Raises:
            ValueError: if a text has no mask or is too long, or `top` is out of range.
        """
        texts = list_inputs(texts, "text")
        options = self.override_search(**search_overrides)
        count = len(self.candidate_tokens)
        top = get_default_top(options.n_best, count) if top is None else top
        limit = whole_number("top", top, 1, count)

        def prepare(rows: list[int]) -> list[list[int]]:
            return self._encode_masked([texts[row] for row in rows], name_rows(rows))

        def fill(_: list[int], encoded: list[list[int]]) -> list[FillMaskResult]:
            results: dict[int, FillMaskResult] = {}
            for group, width in group_by_width(encoded, options.batch_size):
                width = min(width, self.max_positions)
                tokens = pad_batch([encoded[row] for row in group], len(group), width)
                masks = tokens == self.mask
                log_probs = np.split(self._log_probs(tokens, masks), masks.sum(1).cumsum()[:-1])
                for row, mask_log_probs in zip(group, log_probs, strict=True):
                    results[row] = self._rank(encoded[row], mask_log_probs, limit)
                report_predicted(len(group))
            return [results[row] for row in range(len(encoded))]

        return predict_rows(len(texts), on_error, self.result_class, prepare, fill)

    def _rank(self, ids: list[int], log_probs: np.ndarray, top: int) -> FillMaskResult:
        """Return the filled text with alternatives, from log probabilities at the masks."""
        if np.isnan(log_probs).any():
            return FillMaskResult.failed(NAN_LOGITS)
        return rank_results(FillMaskResult, self._make_results(ids, log_probs, top))

    def check_sources(self, sources: Sequence[str], locations: Locations = None) -> None:
        """Raise ValueError for a text that `predict` rejects; arguments as in `encode_sources`."""
        self._encode_masked(sources, locations)

    def _encode_masked(self, texts: Sequence[str], locations: Locations = None) -> list[list[int]]:
        """Return ids with start and end tokens; raise ValueError for a text without a mask."""
        start, end = self.tokenizer.start, self.tokenizer.end
        rows = [[start, *ids, end] for ids in self.encode_sources(texts, locations)]
        for location, ids in add_locations(rows, locations):
            if self.mask not in ids:
                raise ValueError(f"{location}: has no {MASK}; put it at each token to predict")
        return rows

    def _encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return token ids, in which each `[MASK]` is one mask token, with the space before it."""
        encoded = self.tokenizer.encode(texts)
        if self.tokenizer.mask is not None:
            return encoded
        pairs = zip(texts, encoded, strict=True)
        return [self._encode_with_masks(text) if MASK in text else ids for text, ids in pairs]

    def _encode_with_masks(self, text: str) -> list[int]:
        """Encode a text with masks for a tokenizer without a mask token.

        A private-use character stands in for `[MASK]`.
        """
        known = {*text, *"".join(self.tokenizer.vocabulary)}
        placeholder = next(x for x in map(chr, PRIVATE_USE) if x not in known)
        text = text.replace(MASK, placeholder)
        (ids,), pieces = self.tokenizer.encode([text]), self.tokenizer.surfaces(text)
        return [
            self.mask if placeholder in piece else i for i, piece in zip(ids, pieces, strict=True)
        ]

    def find_unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that no token of the vocabulary contains."""
        return super().find_unknown_characters(text.replace(MASK, " "))

    def make_served_examples(self, examples: Any) -> list[dict[str, Any]]:
        """Return lines whose middle word is masked; see `Task.make_served_examples`."""
        served = []
        for words in map(str.split, examples.texts):
            words[len(words) // 2] = MASK
            served.append({"text": " ".join(words)})
        return [one for one in served if self._accepts(one["text"])]

    def _log_probs(self, tokens: np.ndarray, where: np.ndarray) -> np.ndarray:
        """Return log probabilities `(N, V)` at the N positions of `(B, T)` that `where` selects."""
        of = self.model({"tokens": tokens}, training=False, project=False)
        hidden = ops.convert_to_numpy(ops.cast(of.hidden, "float32"))[where]
        logits = of._replace(hidden=ops.convert_to_tensor(hidden)).logits()
        return np.asarray(ops.convert_to_numpy(ops.log_softmax(logits, axis=-1)))

    def _make_results(
        self, ids: list[int], log_probs: np.ndarray, top: int
    ) -> Iterator[FillMaskResult]:
        """Yield the filled texts, best first, from log probabilities `(masks, V)` at the masks."""
        log_probs = log_probs[:, self.candidate_tokens]
        best = np.argsort(-log_probs, axis=-1, kind="stable")[:, :top]
        scores = np.take_along_axis(log_probs, best, axis=-1)
        best_tokens = self.candidate_tokens[best]
        predictions = tuple(
            tuple(map(TokenPrediction, self.tokenizer.tokens(tokens), map(math.exp, of_mask)))
            for tokens, of_mask in zip(best_tokens, scores, strict=True)
        )
        source = np.array(ids[1:-1])
        for rank in range(top):
            filled = source.copy()
            filled[source == self.mask] = best_tokens[:, rank]
            yield FillMaskResult(
                text=self.tokenizer.decode(filled.tolist(), past_end=True),
                score=float(scores[:, rank].sum()),
                predictions=predictions,
                tokens=self._label_tokens(filled),
                source_tokens=self._label_tokens(source),
                unknown=find_unknown(ids[1:-1], self.tokenizer.unknown),
            )

    def _label_tokens(self, ids: np.ndarray) -> tuple[str, ...]:
        """Return readable labels of tokens."""
        return tuple(MASK if i == self.mask else self.tokenizer.tokens([i])[0] for i in ids)

    # Evaluation.

    def evaluate(self, examples: TextLines, **search_overrides: Any) -> dict[str, Any]:
        """Compute accuracy and perplexity of masked tokens; the masks are the same in every call.

        Of the search options, only `batch_size` may be given.

        Returns:
            `lines`, `masked` (number of tokens to predict), `masked_accuracy` (their accuracy, 0 to
            100) and `perplexity` (per predicted token).
        """
        batch_size = self.read_batch_size(**search_overrides)
        locations = examples.locations()
        lines = self.encode_sources(examples.texts, locations)
        for location, ids in zip(locations, lines, strict=True):
            if not ids:
                raise ValueError(f"{location}: the text is empty. Remove it or write a sentence.")
        batches = MaskedBatches(lines, self._masking_ids, batch_size, seed=0, bucket_width=1)
        total_loss, correct, count = 0.0, 0, 0
        for rows, _ in group_by_width(lines, batch_size):
            inputs, labels = batches.make_batch(np.array(rows))
            mask = labels != PAD
            log_probs, targets = self._log_probs(inputs["tokens"], mask), labels[mask]
            total_loss -= float(log_probs[np.arange(len(targets)), targets].sum(dtype="float64"))
            correct += int((log_probs.argmax(-1) == targets).sum())
            count += len(targets)
        return {
            "lines": len(lines),
            "masked": count,
            "masked_accuracy": 100 * correct / count,
            "perplexity": math.exp(total_loss / count),
        }

    # Export.

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the masked language model as a `tf.Module` that takes strings."""
        from attention_zoo.tasks.masked_language_modeling.export import MaskedLanguageModelModule

        refuse_rules(rules, self.name)
        return MaskedLanguageModelModule(self)


def count_tokens(tokenizer: Tokenizer) -> int:
    """Return the size of the vocabulary with the mask token."""
    return max(tokenizer.vocabulary_size, mask_id(tokenizer) + 1)


def mask_id(tokenizer: Tokenizer) -> int:
    """Return the id of the mask token: the tokenizer's, or the next id after its vocabulary."""
    if tokenizer.mask is not None:
        return tokenizer.mask
    if not isinstance(tokenizer, Tokenizer):
        raise ValueError(f"tokenizer must have a {MASK} token, got {type(tokenizer).__name__}")
    return tokenizer.vocabulary_size
