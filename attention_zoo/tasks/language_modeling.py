"""Language modelling: what comes next in a text, and how well that was foreseen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from attention_zoo import models
from attention_zoo.data import LineBatches, TextLines, Tokenizer
from attention_zoo.data.vocabulary import END, PAD, START, UNKNOWN
from attention_zoo.decoding import Rule, SearchOptions, SearchResult
from attention_zoo.models.generation import mask_special_tokens
from attention_zoo.tasks.answering import padded, same_width, unknown_characters
from attention_zoo.tasks.one_text import SingleTextTask
from attention_zoo.tasks.task import TASKS, rules_for_all

AT_ONCE = 256  # tokens whose logits are there at a time


@dataclass(frozen=True)
class Continuation:
    """How a text goes on.

    Args:
        text: what follows the prompt: `prompt + text` reads as one.
        score: what the search compares: log-probability with length penalty.
        tokens: readable labels of its tokens (T), without the end token.
        token_scores: log-probability of each of them (T), and of the end token where there is one.
        prompt: what the text begins with, as the tokenizer has it.
        source_tokens: readable labels of the prompt's tokens.
        cut: True when the search stopped at its longest length before the end token.
        unknown: positions in `source_tokens` of tokens the model has never seen.
        alternatives: the next best continuations of the same prompt, best first.
        attention: None; for those who draw it where there is any.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    prompt: str
    source_tokens: tuple[str, ...]
    cut: bool
    unknown: tuple[int, ...] = ()
    alternatives: tuple[Continuation, ...] = ()
    attention: None = None


@TASKS.register("language_modeling")
class LanguageModeling(SingleTextTask):
    """A model that writes on, and its tokenizer: strings in, strings out.

    Args:
        model: a `models.GPT`.
        tokenizer: `data.Tokenizer`.
        search: how `predict` searches unless told otherwise.
        max_length: most tokens of a text, its start counted. Training leaves longer ones out;
            `predict` and `evaluate` refuse them.

    Raises:
        ValueError: the model is none that writes on.
    """

    name: ClassVar[str] = "language_modeling"
    metric_names: ClassVar[tuple[str, ...]] = ("accuracy",)

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        max_length: int = 256,
    ) -> None:
        if not isinstance(model, models.GPT):
            raise ValueError(
                f"a {type(model).__name__} does not write on; language modelling takes a GPT"
            )
        super().__init__(model, tokenizer, search, max_length)

    # Training.

    def batches(self, examples: TextLines, batch_size: int, seed: int) -> LineBatches:
        """The lines as length-bucketed batches; lines over the length limit are left out.

        Raises:
            ValueError: no line is left.
        """
        lines, known = self._fitting(examples)
        return LineBatches(lines, batch_size=batch_size, seed=seed, **known)

    def _encoded(self, examples: TextLines) -> tuple[list[list[int]], list[int]]:
        """Token ids of all lines, and the rows of those that keep the limit."""
        lines = self.tokenizer.encode(examples.texts)
        return lines, [row for row, ids in enumerate(lines) if 0 < len(ids) < self.longest]

    # Prediction.

    def predict(
        self, texts: Sequence[str], *, rules: Sequence[Rule] = (), **search_overrides: Any
    ) -> list[Continuation]:
        """How each text goes on, in order; it depends on nothing else in the list.

        Args:
            texts: what texts begin with; "" begins at the beginning.
            rules: more of what may be taken at a step, the same for all texts (`decoding.Rule`).
            **search_overrides: fields of `SearchOptions` for this call.

        Raises:
            ValueError: a text is too long, or too long for what may follow, an option is unknown
                or contradicts another, or the options leave no answer.
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

    def check_sources(self, texts: Sequence[str], places: Sequence[str] | None = None) -> None:
        """ValueError for a text that `predict` refuses; arguments as in `encode_sources`."""
        self._prompts(texts, self.search, places)

    def encode_sources(
        self, texts: Sequence[str], places: Sequence[str] | None = None
    ) -> list[list[int]]:
        """Token ids of each text, without the start.

        Args:
            texts: beginnings of texts, or whole ones.
            places: where each text stands, for messages; "source 0" and so on without.

        Raises:
            ValueError: a text is too long.
        """
        encoded = self.tokenizer.encode(list(texts)) if len(texts) else []
        for row, ids in enumerate(encoded):
            if len(ids) >= self.longest:
                raise ValueError(
                    f"{places[row] if places else f'source {row}'}: {len(ids)} tokens and the"
                    f" start, the limit is {self.max_length}; shorten it or raise the limit"
                    " (data.max_length on the command line, task.max_length in Python)"
                )
        return encoded

    def unknown_characters(self, text: str) -> list[str]:
        """The characters of a text that no token of the vocabulary can hold."""
        return unknown_characters(self.tokenizer, text)

    def _prompts(
        self, texts: Sequence[str], options: SearchOptions, places: Sequence[str] | None = None
    ) -> list[list[int]]:
        """Token ids with the start; ValueError where one leaves no room for what may follow."""
        prompts = [[START, *ids] for ids in self.encode_sources(texts, places)]
        for row, ids in enumerate(prompts):
            limit = options.limit(len(ids))
            if len(ids) + limit - 1 > self.places:
                raise ValueError(
                    f"{places[row] if places else f'source {row}'}: {len(ids)} tokens, and as many"
                    f" as {limit} may follow, but the model has {self.places} places; shorten it,"
                    f" or set max_length to at most {self.places - len(ids) + 1}"
                )
        return prompts

    def _answer(self, row: int, prompt: list[int], result: SearchResult, at: int) -> Continuation:
        """The answer to one prompt, which stands in a row of the result."""
        begins = self.tokenizer.decode(prompt, past_end=True)
        answers = []
        for n, length in enumerate(result.lengths[at]):
            if length == 0:  # the search found fewer than it was asked for
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
                cut=not finished,
                unknown=tuple(place for place, token in enumerate(prompt) if token == UNKNOWN),
            )
            answers.append(answer)
        if not answers:
            raise ValueError(f"source {row}: the search options leave no answer to it")
        best, *others = answers
        return replace(best, alternatives=tuple(others))

    # Evaluation.

    def evaluate(self, examples: TextLines, **search_overrides: Any) -> dict[str, Any]:
        """How well the model foresees each token of `examples` from those before it.

        Nothing is searched for; options of the search are only checked.

        Returns:
            `lines`, `tokens` (an end token for each line counted), `accuracy` (0 to 100: tokens
            that were the likeliest), `perplexity` (a token), `bits_per_character` (the end of a
            line counts as one) and `unknown`, the tokens that the vocabulary does not have: of
            these the model says no more than that.
        """
        options = self.search.override(**search_overrides)
        places = examples.places()
        lines = self.encode_sources(examples.texts, places)
        nats = right = 0.0
        for rows, width in same_width([[START, *ids] for ids in lines], options.batch_size):
            width = min(width, self.places)
            tokens = padded([[START, *lines[row]] for row in rows], len(rows), width)
            labels = padded([[*lines[row], END] for row in rows], len(rows), width)
            part = self._foreseen(tokens, labels)
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

    def _foreseen(self, tokens: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """Minus the log-probability of the labels `(B, T)`, and how many were the likeliest.

        As in a search, padding and the start never follow.
        """
        live = labels != PAD
        of = self.model({"tokens": tokens}, training=False, project=False)
        hidden, told = ops.convert_to_numpy(of.hidden)[live], labels[live]
        nats = right = 0.0
        for begin in range(0, len(told), AT_ONCE):  # a batch's logits may fill the memory
            some, wanted = (part[begin : begin + AT_ONCE] for part in (hidden, told))
            logits = of._replace(hidden=ops.convert_to_tensor(some)).logits()
            logits = mask_special_tokens(ops.cast(logits, "float32"))
            chosen = ops.take_along_axis(logits, ops.convert_to_tensor(wanted)[:, None], axis=-1)
            found = ops.convert_to_numpy(ops.logsumexp(logits, axis=-1) - chosen[:, 0])
            likeliest = ops.convert_to_numpy(ops.argmax(logits, axis=-1))
            nats += float(found.sum(dtype="float64"))
            right += float((likeliest == wanted).sum())
        return nats, right
