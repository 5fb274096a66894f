"""Language modeling: text generation from prompts, perplexity, next-token accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from attention_zoo import models
from attention_zoo.data import LineBatches, TextLines, Tokenizer
from attention_zoo.data.tokenizers.vocabulary import END, PAD, START, UNKNOWN
from attention_zoo.decoding import Rule, SearchOptions, SearchResult
from attention_zoo.models.generation import mask_special_tokens
from attention_zoo.tasks.base import TASKS, Result, rules_for_all
from attention_zoo.tasks.building import build_model, train_recipe_tokenizer
from attention_zoo.tasks.single_text import SingleTextTask
from attention_zoo.tasks.text_inputs import padded, same_width, unknown_characters

AT_ONCE = 256  # positions whose logits are computed at a time


@dataclass(frozen=True, kw_only=True)
class Continuation(Result):
    """A generated continuation of a prompt.

    Args:
        text: the continuation; `prompt + text` is the whole text.
        score: the score of the hypothesis: log-probability with length penalty.
        tokens: readable labels of the continuation's tokens (T), without the end token.
        token_scores: log-probability of each token (T), and of the end token if there is one.
        prompt: the prompt as decoded by the tokenizer.
        source_tokens: readable labels of the prompt's tokens.
        unknown, truncated, alternatives: see `Result`.
    """

    token_scores: tuple[float, ...]
    prompt: str


@TASKS.register("language_modeling")
class LanguageModeling(SingleTextTask):
    """Language modeling: a GPT and its tokenizer. Inputs and outputs are strings.

    Args:
        model: a `models.GPT`.
        tokenizer: `data.Tokenizer`.
        search: default search options of `predict`.
        max_length: maximum number of tokens of a text, start token included. Training drops longer
            texts; `predict` and `evaluate` reject them.

    Raises:
        ValueError: if the model is not a `models.GPT`.
    """

    name: ClassVar[str] = "language_modeling"
    metric_names: ClassVar[tuple[str, ...]] = ("accuracy",)
    card_metrics: ClassVar[Mapping[str, str]] = {
        "lines": "lines",
        "tokens": "tokens",
        "perplexity": "perplexity per token",
        "bits_per_character": "bits per character",
        "accuracy": "next-token accuracy, %",
    }

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        max_length: int = 256,
    ) -> None:
        if not isinstance(model, models.GPT):
            raise ValueError(f"model must be a models.GPT, got {type(model).__name__}")
        super().__init__(model, tokenizer, search, max_length)

    @classmethod
    def from_recipe(cls, recipe: Any, train: TextLines) -> Self:
        """Build a language model and train its tokenizer."""
        tokenizer = train_recipe_tokenizer(recipe.tokenizer, train.texts)
        model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
        return cls(model, tokenizer, **cls.recipe_options(recipe))

    # Training.

    def batches(self, examples: TextLines, batch_size: int, seed: int) -> LineBatches:
        """Return length-bucketed batches of lines; lines over the length limit are dropped.

        Raises:
            ValueError: if no line is left.
        """
        lines, known = self._fitting(examples)
        return LineBatches(lines, batch_size=batch_size, seed=seed, **known)

    def _encoded(self, examples: TextLines) -> tuple[list[list[int]], list[int]]:
        """Return the token ids of all lines, and the row numbers of those within the limit."""
        lines = self.tokenizer.encode(examples.texts)
        return lines, [row for row, ids in enumerate(lines) if 0 < len(ids) < self.longest]

    # Prediction.

    def predict(
        self, texts: Sequence[str], *, rules: Sequence[Rule] = (), **search_overrides: Any
    ) -> list[Continuation]:
        """Continue each text, in order; a result does not depend on the other texts.

        Args:
            texts: prompts; "" generates from the start token alone.
            rules: additional decoding rules (`decoding.Rule`), the same for all texts.
            **search_overrides: fields of `SearchOptions` to override in this call.

        Raises:
            ValueError: if a text is too long; text and continuation may exceed the model's maximum
                length; an option is unknown or conflicts with another; or the search finds no
                continuation.
        """
        if isinstance(texts, str):
            raise ValueError("predict takes a list of texts; write predict([text])")
        rules = rules_for_all(rules)
        options = self.search.override(**search_overrides)
        prompts = self._prompts(texts, options)
        answers: dict[int, Continuation] = {}
        for rows, width in same_width(prompts, options.batch_size):
            size = min(options.batch_size, 2 ** (len(rows) - 1).bit_length())
            sources = padded([prompts[row] for row in rows], size, width)
            found = self.model.compiled_search(sources, options, rules=rules)
            for at, row in enumerate(rows):
                answers[row] = self._answer(row, prompts[row][1:], found, at)
        return [answers[row] for row in range(len(prompts))]

    def check_sources(self, sources: Sequence[str], locations: Sequence[str] | None = None) -> None:
        """Raise ValueError for a text that `predict` rejects; arguments as in `encode_sources`."""
        self._prompts(sources, self.search, locations)

    def encode_sources(
        self, texts: Sequence[str], locations: Sequence[str] | None = None
    ) -> list[list[int]]:
        """Return the token ids of each text, without the start token.

        Args:
            texts: prompts or whole texts.
            locations: location of each text for error messages; by default "source 0" and so on.

        Raises:
            ValueError: if a text is too long.
        """
        encoded = self.tokenizer.encode(list(texts)) if len(texts) else []
        for row, ids in enumerate(encoded):
            if len(ids) >= self.longest:
                raise ValueError(
                    f"{locations[row] if locations else f'source {row}'}: {len(ids)} tokens and the"
                    f" start token, the limit is {self.max_length}; shorten it or raise the limit"
                    " (data.max_length on the command line, task.max_length in Python)"
                )
        return encoded

    def unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that no token of the vocabulary contains."""
        return unknown_characters(self.tokenizer, text)

    def _prompts(
        self, texts: Sequence[str], options: SearchOptions, locations: Sequence[str] | None = None
    ) -> list[list[int]]:
        """Return ids with the start token; ValueError if a continuation may not fit the model."""
        prompts = [[START, *ids] for ids in self.encode_sources(texts, locations)]
        for row, ids in enumerate(prompts):
            limit = options.limit(len(ids))
            if len(ids) + limit - 1 > self.max_positions:
                location = locations[row] if locations else f"source {row}"
                raise ValueError(
                    f"{location}: {len(ids)} tokens, and its continuation may have {limit}, but the"
                    f" model has {self.max_positions} positions; shorten it, or set max_length to"
                    f" at most {self.max_positions - len(ids) + 1}"
                )
        return prompts

    def _answer(self, row: int, prompt: list[int], result: SearchResult, at: int) -> Continuation:
        """Return the continuation of one prompt, from row `at` of the search result."""
        begins = self.tokenizer.decode(prompt, past_end=True)
        answers = []
        for n, length in enumerate(result.lengths[at]):
            if length == 0:  # the search found fewer than `n_best`
                break
            finished = bool(result.finished[at, n])
            ids = [int(token) for token in result.tokens[at, n, : int(length) - finished]]
            whole = self.tokenizer.decode([*prompt, *ids], past_end=True)
            answer = Continuation(
                text=whole[len(begins) :],
                score=float(result.scores[at, n]),
                tokens=tuple(self.tokenizer.tokens(ids)),
                token_scores=tuple(map(float, result.token_scores[at, n, :length])),
                prompt=begins,
                source_tokens=tuple(self.tokenizer.tokens(prompt)),
                truncated=not finished,
                unknown=tuple(at for at, token in enumerate(prompt) if token == UNKNOWN),
            )
            answers.append(answer)
        if not answers:
            raise ValueError(
                f"source {row}: the search found no continuation; relax the search options"
            )
        best, *others = answers
        return replace(best, alternatives=tuple(others))

    # Evaluation.

    def evaluate(self, examples: TextLines, **search_overrides: Any) -> dict[str, Any]:
        """Compute perplexity and next-token accuracy on `examples`.

        No search is run. Of the search options, `batch_size` is used and the others are only
        validated.

        Returns:
            `lines`, `tokens` (with one end token for each line), `accuracy` (next-token accuracy, 0
            to 100), `perplexity` (per token), `bits_per_character` (the end of a line counts as one
            character) and `unknown` (tokens that are not in the vocabulary; their label is the
            unknown token).
        """
        options = self.search.override(**search_overrides)
        lines = self.encode_sources(examples.texts, examples.locations())
        nats = right = 0.0
        for rows, width in same_width([[START, *ids] for ids in lines], options.batch_size):
            width = min(width, self.max_positions)
            tokens = padded([[START, *lines[row]] for row in rows], len(rows), width)
            labels = padded([[*lines[row], END] for row in rows], len(rows), width)
            part = self._score_tokens(tokens, labels)
            nats, right = nats + part[0], right + part[1]
        count = sum(len(ids) + 1 for ids in lines)
        characters = sum(len(text) + 1 for text in examples.texts)
        return {
            "lines": len(lines),
            "tokens": count,
            "accuracy": 100 * right / count,
            "perplexity": math.exp(nats / count),
            "bits_per_character": nats / math.log(2) / characters,
            "unknown": sum(ids.count(UNKNOWN) for ids in lines),
        }

    def _score_tokens(self, tokens: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """Return the negative log-likelihood of labels `(B, T)`, and the number of correct tokens.

        As in a search, the padding and start tokens have probability 0.
        """
        mask = labels != PAD
        of = self.model({"tokens": tokens}, training=False, project=False)
        hidden, targets = ops.convert_to_numpy(of.hidden)[mask], labels[mask]
        nats = right = 0.0
        for begin in range(0, len(targets), AT_ONCE):  # to limit the memory of logits
            some, wanted = (part[begin : begin + AT_ONCE] for part in (hidden, targets))
            logits = of._replace(hidden=ops.convert_to_tensor(some)).logits()
            logits = mask_special_tokens(ops.cast(logits, "float32"))
            chosen = ops.take_along_axis(logits, ops.convert_to_tensor(wanted)[:, None], axis=-1)
            found = ops.convert_to_numpy(ops.logsumexp(logits, axis=-1) - chosen[:, 0])
            likeliest = ops.convert_to_numpy(ops.argmax(logits, axis=-1))
            nats += float(found.sum(dtype="float64"))
            right += float((likeliest == wanted).sum())
        return nats, right

    # Export.

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the language model as a `tf.Module` that takes strings."""
        from attention_zoo.tasks.language_modeling.export import ServedLanguageModel

        return ServedLanguageModel(self, rules_for_all(rules))
