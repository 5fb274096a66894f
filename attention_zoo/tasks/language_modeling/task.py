"""Language modeling: text generation from prompts, perplexity, next-token accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo import models
from attention_zoo.data import LineBatches, TextLines
from attention_zoo.data.tokenizers.vocabulary import END, PAD, START, UNKNOWN
from attention_zoo.decoding import Rule, SearchOptions, SearchResult
from attention_zoo.models.generation import mask_special_tokens
from attention_zoo.tasks.base import SEARCH_OPTIONS
from attention_zoo.tasks.building import build_task
from attention_zoo.tasks.generation import GenerationTask, read_hypotheses
from attention_zoo.tasks.inputs import (
    Locations,
    add_locations,
    check_rules,
    list_inputs,
    name_rows,
    predict_rows,
)
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.result import Result
from attention_zoo.tasks.single_text import SingleTextTask
from attention_zoo.tasks.text_inputs import (
    find_unknown,
    group_by_width,
    pad_batch,
    predict_by_width,
)

AT_ONCE = 256  # positions whose logits are computed at a time


@dataclass(frozen=True, kw_only=True)
class Continuation(Result):
    """A generated continuation of a prompt.

    Args:
        text: the continuation; `prompt + text` is the whole text.
        score: the score of the hypothesis: log probability with length penalty.
        tokens: readable labels of the continuation's tokens (T), without the end token.
        token_scores: log probability of each token (T), and of the end token if there is one.
        prompt: the prompt as decoded by the tokenizer.
        source_tokens: readable labels of the prompt's tokens.
        unknown, truncated, alternatives: see `Result`.
    """

    token_scores: tuple[float, ...] = ()
    prompt: str = ""


@TASKS.register("language_modeling")
class LanguageModeling(GenerationTask, SingleTextTask):
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

    model_class = models.GPT
    output_noun = "continuation"
    result_class = Continuation
    used_search_options = tuple(name for name in SEARCH_OPTIONS if name != "replace_unknown")
    evaluation_search_options = ("batch_size",)

    @classmethod
    def from_recipe(cls, recipe: Any, train: TextLines) -> Any:
        """Build a language model and train its tokenizer."""
        return build_task(cls, recipe, train, "texts")

    # Training.

    def make_batches(self, examples: TextLines, batch_size: int, seed: int) -> LineBatches:
        """Return length-bucketed batches of lines; lines over the length limit are dropped.

        Raises:
            ValueError: if no line is left.
        """
        encoded, options = self._encode_corpus(examples)
        return LineBatches(encoded["lines"], batch_size, seed, **options)

    # Prediction.

    def predict(
        self,
        texts: Iterable[str],
        *,
        rules: Sequence[Rule] = (),
        on_error: str = "raise",
        **search_overrides: Any,
    ) -> list[Continuation]:
        """Continue each text, in order; a result does not depend on the other texts.

        Without `max_length` and `max_length_ratio`, a continuation has at most as many tokens as
        the model has positions left.

        Args:
            texts: prompts; "" generates from the start token alone.
            rules: additional decoding rules (`decoding.Rule`), the same for all texts.
            on_error: "raise", or "skip": see `Task.predict`.
            **search_overrides: fields of `SearchOptions` to override in this call.

        Raises:
            ValueError: if a text is too long; text and continuation may exceed the model's maximum
                length; an option is unknown or conflicts with another; or the search finds no
                continuation.
        """
        texts, rules = list_inputs(texts, "text"), check_rules(rules)
        options = self.search_options(**search_overrides)

        def prepare(rows: list[int]) -> list[list[int]]:
            return self._encode_prompts([texts[row] for row in rows], options, name_rows(rows))

        def continue_prompts(rows: list[int], prompts: list[list[int]]) -> list[Continuation]:
            def continue_batch(part: list[int], source: np.ndarray) -> Iterator[Continuation]:
                result = self._run_search(source, options, rules)
                for index, row in enumerate(part):
                    results = self._make_results(prompts[row][1:], result, index)
                    yield self._rank(results, result.scores[index])

            return predict_by_width(prompts, options.batch_size, continue_batch)

        return predict_rows(len(texts), on_error, self.result_class, prepare, continue_prompts)

    def check_sources(self, sources: Sequence[str], locations: Locations = None) -> None:
        """Raise ValueError for a text that `predict` rejects; arguments as in `encode_sources`."""
        self._encode_prompts(sources, self.search, locations)

    def _encode_prompts(
        self, texts: Sequence[str], options: SearchOptions, locations: Locations = None
    ) -> list[list[int]]:
        """Return ids with the start token; ValueError if a continuation may not fit the model."""
        prompts = [[START, *ids] for ids in self.encode_sources(texts, locations)]
        for location, ids in add_locations(prompts, locations):
            self.model.check_positions(f"{location}: the prompt", len(ids), options)
        return prompts

    def _make_source(self, size: int, length: int) -> NDArray[np.int32]:
        """Return a batch of dummy prompts of this length.

        They are shorter if their continuation would exceed the model's `max_length`.
        """
        length, options = min(length, self.longest), self.search_options()
        while length > 1 and not self.model.leaves_positions(length, options):
            length -= 1
        source = np.full((size, length), UNKNOWN, "int32")
        source[:, 0] = START
        return source

    def _make_results(
        self, prompt: list[int], result: SearchResult, at: int
    ) -> Iterator[Continuation]:
        """Yield the continuations of one prompt, from row `at` of the search result."""
        begins = self.tokenizer.decode(prompt, past_end=True)
        for ids, _, fields in read_hypotheses(result, at):
            whole = self.tokenizer.decode([*prompt, *ids], past_end=True)
            yield Continuation(
                text=whole[len(begins) :],
                tokens=tuple(self.tokenizer.tokens(ids)),
                prompt=begins,
                source_tokens=tuple(self.tokenizer.tokens(prompt)),
                unknown=find_unknown(prompt),
                **fields,
            )

    # Evaluation.

    def evaluate(self, examples: TextLines, **search_overrides: Any) -> dict[str, Any]:
        """Compute perplexity and next-token accuracy on `examples`.

        No search is run. Of the search options, only `batch_size` may be given.

        Returns:
            `lines`, `tokens` (with one end token for each line), `accuracy` (next-token accuracy, 0
            to 100), `perplexity` (per token), `bits_per_character` (the end of a line counts as one
            character) and `unknown` (tokens that are not in the vocabulary; their label is the
            unknown token).
        """
        batch_size = self.read_batch_size(**search_overrides)
        lines = self.encode_sources(examples.texts, examples.locations())
        total_loss = correct = 0.0
        for rows, width in group_by_width([[START, *ids] for ids in lines], batch_size):
            width = min(width, self.max_positions)
            tokens = pad_batch([[START, *lines[row]] for row in rows], len(rows), width)
            labels = pad_batch([[*lines[row], END] for row in rows], len(rows), width)
            batch_loss, batch_correct = self._score_tokens(tokens, labels)
            total_loss += batch_loss
            correct += batch_correct
        count = sum(len(ids) + 1 for ids in lines)
        characters = sum(len(text) + 1 for text in examples.texts)
        return {
            "lines": len(lines),
            "tokens": count,
            "accuracy": 100 * correct / count,
            "perplexity": math.exp(total_loss / count),
            "bits_per_character": total_loss / math.log(2) / characters,
            "unknown": sum(ids.count(UNKNOWN) for ids in lines),
        }

    def _score_tokens(self, tokens: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """Return the negative log-likelihood of labels `(B, T)`, and the number of correct tokens.

        As in a search, the padding and start tokens have probability 0.
        """
        mask = labels != PAD
        projection = self.model({"tokens": tokens}, training=False, project=False)
        hidden, targets = ops.convert_to_numpy(projection.hidden)[mask], labels[mask]
        total_loss = correct = 0.0
        for begin in range(0, len(targets), AT_ONCE):  # to limit the memory of logits
            chunk = slice(begin, begin + AT_ONCE)
            logits = projection._replace(hidden=ops.convert_to_tensor(hidden[chunk])).logits()
            logits = mask_special_tokens(ops.cast(logits, "float32"))
            chosen = ops.take_along_axis(logits, ops.convert_to_tensor(targets[chunk])[:, None], -1)
            losses = ops.convert_to_numpy(ops.logsumexp(logits, axis=-1) - chosen[:, 0])
            likeliest = ops.convert_to_numpy(ops.argmax(logits, axis=-1))
            total_loss += float(losses.sum(dtype="float64"))
            correct += float((likeliest == targets[chunk]).sum())
        return total_loss, correct

    # Export.

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the language model as a `tf.Module` that takes strings."""
        from attention_zoo.tasks.language_modeling.export import LanguageModelModule

        return LanguageModelModule(self, check_rules(rules))
