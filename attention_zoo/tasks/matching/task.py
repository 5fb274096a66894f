"""Matching of two texts: their class, a number, or a ranking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np
from numpy.typing import NDArray

from attention_zoo import models
from attention_zoo.data import LabelledPairs, Tokenizer
from attention_zoo.data.batching.matched_batches import MatchedBatches
from attention_zoo.data.text.labelled_pairs import TARGETS
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.registry import Registry, check_choice
from attention_zoo.tasks.base import Task
from attention_zoo.tasks.building import (
    check_model,
    check_vocabulary_size,
    load_vectors,
    make_tokenizer,
)
from attention_zoo.tasks.encoding import EncodedPart, load_or_encode, take_encoded
from attention_zoo.tasks.inference import MAX_EAGER_CALLS, Arrays, BatchedInference, PaddedShape
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
from attention_zoo.tasks.matching.building import (
    build_matcher,
    check_target,
    compute_score_statistics,
    find_classes,
    index_labels,
    select_pairs,
)
from attention_zoo.tasks.matching.corpora import LABELLED_PAIRS
from attention_zoo.tasks.matching.inference import MatcherInference, compute_shape, pad_pairs
from attention_zoo.tasks.matching.model_call import MatchingCallMixin
from attention_zoo.tasks.matching.result import MatchingResult, Source, make_result, make_source
from attention_zoo.tasks.matching.scoring import score_matches
from attention_zoo.tasks.matching.texts import SIDES, EncodedPair, Pair, check_pair, encode_pairs
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.text_inputs import encode_in_parts, list_shapes


@TASKS.register("matching")
class Matching(MatchingCallMixin, Task):
    """Matching of two texts: a matcher, its tokenizer and the limits of both texts.

    Args:
        model: a `models.Matcher`, with classes if `target` is "classification", else without.
        tokenizer: `data.Tokenizer` of any kind, or a public one, for both texts.
        search: only `n_best` (the number of most probable classes) and `batch_size` are used.
        max_first_length, max_second_length: maximum number of tokens of each text.
        truncate: whether longer texts are truncated; if not, training drops their pairs, and
            `predict` and `evaluate` reject them.
        target: "classification", "regression" (such as a similarity), or "ranking": the relevance
            of the second text for the first one.
        score_mean, score_deviation: mean and standard deviation of the numbers in the training
            data; the model predicts standardized numbers.

    Raises:
        ValueError: if the model is not a `models.Matcher` or does not fit `target`, its vocabulary
            has another size than the tokenizer's, or it has fewer positions than the limits.
    """

    name: ClassVar[str] = "matching"
    corpora: ClassVar[Registry] = LABELLED_PAIRS
    inputs: ClassVar[tuple[Input, ...]] = (Input("pairs", "text_pair"),)
    example_noun: ClassVar[str] = "pairs"
    limits: ClassVar[tuple[str, ...]] = ("max_first_length", "max_second_length")
    boolean_options: ClassVar[tuple[str, ...]] = ("truncate",)
    has_attention_option: ClassVar[bool] = True
    uses_beam_search: ClassVar[bool] = False
    public_backbones: ClassVar[tuple[str, ...]] = ("bert",)
    used_search_options = ("n_best", "batch_size")
    evaluation_search_options = ("batch_size",)
    result_class = MatchingResult
    card_metrics: ClassVar[Mapping[str, str]] = {
        "pairs": "pairs",
        "accuracy": "accuracy, %",
        "macro_f1": "macro F1, %",
        "pearson": "Pearson correlation",
        "spearman": "Spearman correlation",
        "mean_average_precision": "MAP",
        "mean_reciprocal_rank": "MRR",
    }

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        max_first_length: int = 128,
        max_second_length: int = 128,
        truncate: bool = False,
        target: str = "classification",
        score_mean: float = 0.0,
        score_deviation: float = 1.0,
    ) -> None:
        check_model(model, models.Matcher)
        check_choice("target", target, TARGETS)
        if (model.classes is None) == (target == "classification"):
            given = "without classes" if model.classes is None else "with classes"
            raise ValueError(
                f"target={target!r} does not fit a model {given}. Use target='classification' for"
                " a model with classes, and 'regression' or 'ranking' for one without."
            )
        check_vocabulary_size(tokenizer, model.vocabulary_size)
        self.model: Any = model
        self.tokenizer, self.search = tokenizer, search or SearchOptions()
        self.max_first_length, self.max_second_length = max_first_length, max_second_length
        self.truncate, self.target = truncate, target
        self.score_mean, self.score_deviation = float(score_mean), float(score_deviation)
        self._calls = 0
        self._inference = BatchedInference(MatcherInference)

    @classmethod
    def from_recipe(cls, recipe: Any, train: LabelledPairs) -> Self:
        """Build a matcher for the target of the recipe and train its tokenizer."""
        options, target = recipe.tokenizer, recipe.data.target
        check_target(train, target)
        tokenizer = make_tokenizer(recipe, train, ["firsts", "seconds"])
        classes = find_classes(train) if target == "classification" else None
        model = build_matcher(recipe, classes, tokenizer)
        if options is not None and options.vectors is not None:
            load_vectors(model, tokenizer, options.vectors)
        own: dict[str, Any] = {}
        if target == "regression":
            mean, deviation = compute_score_statistics(train.scores or (), train.origin)
            own = {"score_mean": mean, "score_deviation": deviation}
        return cls(model, tokenizer, target=target, **own, **cls.recipe_options(recipe))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their indices; empty without classes."""
        return self.model.classes or ()

    @property
    def metric_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Metrics that can select the best checkpoint."""
        return {
            "classification": ("accuracy", "macro_f1"),
            "regression": ("pearson", "spearman"),
            "ranking": ("mean_average_precision", "mean_reciprocal_rank"),
        }[self.target]

    def adapt_to_recipe(self, recipe: Any, train: LabelledPairs) -> None:
        """Raise ValueError for another target. Scores keep the scale of the initial task."""
        if recipe.data.target != self.target:
            raise ValueError(
                f"init={recipe.init}: its target is {self.target}, but the recipe has"
                f" data.target={recipe.data.target}. Use another init."
            )

    def select_monitored(self, examples: LabelledPairs, size: int) -> LabelledPairs:
        """Return evenly spaced pairs, or whole groups of a ranking."""
        return examples.take(select_pairs(examples, size))

    def get_predict_inputs(self, examples: LabelledPairs) -> Sequence[Pair]:
        """Return the pairs of texts."""
        return list(zip(examples.firsts, examples.seconds, strict=True))

    # Training.

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the loss of the target: cross-entropy, squared error, or binary cross-entropy."""
        target = None if self.target == "classification" else self.target
        loss: keras.losses.Loss = self.model.make_loss(label_smoothing, target)
        return loss

    def make_batches(self, examples: LabelledPairs, batch_size: int, seed: int) -> MatchedBatches:
        """Return length-bucketed batches; pairs over a limit are truncated or dropped.

        Raises:
            ValueError: if no pair is left, or a class is unknown (file:line).
        """
        first, second = self.text_limits
        labels = self._make_labels(examples)
        encoded = load_or_encode(self, examples, self._encode_within)
        rows = encoded.rows
        if not len(rows):
            raise ValueError(
                f"{examples.origin}: none of its {len(examples)} pairs fits into {first} and"
                f" {second} tokens; raise data.max_first_length and data.max_second_length"
            )
        width = 1 if (self.model.max_length or 0) % 4 else 4
        sides = encoded["first"], encoded["second"]
        return MatchedBatches(
            *sides, labels[rows], batch_size, seed, bucket_width=width, numbers=rows + 1
        )

    def _make_labels(self, examples: LabelledPairs) -> NDArray[Any]:
        """Return the class index, the standardized number, or the relevance of each pair."""
        if self.target == "classification":
            return index_labels(examples, self.classes)
        scores = np.asarray(check_target(examples, self.target).scores, np.float64)
        standardized: NDArray[Any] = (scores - self.score_mean) / self.score_deviation
        return standardized

    def filter_by_length(self, examples: LabelledPairs) -> LabelledPairs:
        """Return the pairs that `make_batches` keeps."""
        return take_encoded(self, examples, self._encode_within)

    @property
    def text_limits(self) -> tuple[int, int]:
        """Maximum numbers of tokens; ValueError if the model has fewer positions."""
        limits, longest = (self.max_first_length, self.max_second_length), self.model.max_length
        total = self.model.max_pair_length
        if max(limits) > (longest or max(limits)) or sum(limits) > (total or sum(limits)):
            positions = f"{total} for both texts" if total else f"{longest} for each text"
            raise ValueError(
                f"max_first_length={limits[0]} and max_second_length={limits[1]} exceed the"
                f" positions of the model, {positions}; lower them (data.max_first_length and"
                " data.max_second_length in a recipe)"
            )
        return limits

    @property
    def encoding_options(self) -> dict[str, Any]:
        """Options that, with the tokenizers, determine the token ids of a corpus."""
        return self.options

    def _encode_within(self, examples: LabelledPairs, rows: range) -> Iterator[EncodedPart]:
        """Yield row numbers and token ids of the pairs within the limits, in parts."""
        limits = self.text_limits

        def encode(part: LabelledPairs) -> list[EncodedPair]:
            return encode_pairs(self.tokenizer, part.firsts, part.seconds, limits)

        for part_rows, _, pairs in encode_in_parts(examples, rows, encode, self.example_noun):
            fitting = [
                (row, pair)
                for row, pair in zip(part_rows, pairs, strict=True)
                if any(pair.first) and any(pair.second) and (self.truncate or not pair.is_truncated)
            ]
            columns = {side: [getattr(pair, side) for _, pair in fitting] for side in SIDES}
            yield [row for row, _ in fitting], columns

    # Prediction.

    def predict(
        self,
        pairs: Iterable[Sequence[str]],
        *,
        attention: bool = True,
        on_error: str = "raise",
        **search_overrides: Any,
    ) -> list[MatchingResult]:
        """Match the texts of each pair, in order; a result does not depend on the other pairs.

        Args:
            pairs: pairs of texts, `(first, second)`.
            attention: also return the alignment of the texts, if the model has attention.
            on_error: "raise", or "skip": see `Task.predict`.
            **search_overrides: `n_best` and `batch_size` for this call.

        Raises:
            ValueError: if a text is empty, or too long without `truncate`, or an option is unknown.
        """
        pairs = [materialize_row(pair) for pair in list_inputs(pairs, "pair")]
        options = self.override_search(**search_overrides)
        self._calls += 1

        def prepare(rows: list[int]) -> list[Source]:
            return self._encode_sources([pairs[row] for row in rows], name_rows(rows))

        def match(_: list[int], sources: list[Source]) -> list[MatchingResult]:
            encoded = [source.encoded for source in sources]
            is_compiled = self._calls > MAX_EAGER_CALLS
            outputs = self._run(encoded, options.batch_size, is_compiled, attention)
            results = {
                row: make_result(sources[row], output, self.target, self.classes, options.n_best)
                for row, output in outputs
            }
            return [results[row] for row in range(len(sources))]

        return predict_rows(len(pairs), on_error, self.result_class, prepare, match)

    def _run(
        self,
        pairs: Sequence[EncodedPair],
        batch_size: int,
        compiled: bool = False,
        attention: bool = False,
    ) -> Iterator[tuple[int, Arrays]]:
        """Yield row number and `MatcherInference` outputs of each pair, on the original scale."""
        shapes = [compute_shape(pair, self.text_limits) for pair in pairs]

        def make_inputs(rows: list[int], shape: PaddedShape) -> Arrays:
            return pad_pairs([pairs[row] for row in rows], shape)

        runs = self._inference.run(self.model, shapes, make_inputs, batch_size, compiled, attention)
        for row, outputs in runs:
            if self.target == "regression":
                outputs["outputs"] = outputs["outputs"] * self.score_deviation + self.score_mean
            yield row, outputs

    def warm_up(
        self, batch_sizes: Sequence[int] = (1, 2), lengths: Sequence[int] = (8, 16)
    ) -> None:
        """Compile the model for texts of these shapes; see `Task.warm_up`."""
        self._calls = MAX_EAGER_CALLS  # from now on, predictions are compiled
        for size, length in list_shapes(batch_sizes, lengths):
            sides = [[self.tokenizer.unknown] * min(length, limit) for limit in self.text_limits]
            pair = EncodedPair(sides[0], sides[1], (len(sides[0]), len(sides[1])))
            list(self._run([pair] * size, self.search.batch_size, True, True))

    def check_sources(self, sources: Sequence[Any], locations: Locations = None) -> None:
        """Raise ValueError for a pair that `predict` rejects; see `Task.check_sources`."""
        checked = [check_pair(*one) for one in add_locations(sources, locations)]
        self._encode_checked(checked, locations)

    def _encode_sources(self, pairs: Sequence[Any], locations: Sequence[str]) -> list[Source]:
        """Encode pairs; raise ValueError for one that is invalid."""
        checked = [check_pair(*one) for one in add_locations(pairs, locations)]
        encoded = self._encode_checked(checked, locations)
        return [make_source(*x, self.tokenizer) for x in zip(checked, encoded, strict=True)]

    def _encode_checked(
        self, pairs: Sequence[Pair], locations: Locations = None
    ) -> list[EncodedPair]:
        """Encode pairs; raise ValueError for a text without tokens, or over a limit."""
        firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
        encoded = encode_pairs(self.tokenizer, firsts, seconds, self.text_limits)
        for location, pair in add_locations(encoded, locations):
            for side, ids, length in zip(SIDES, pair[:2], pair.lengths, strict=True):
                if not any(ids):
                    raise ValueError(f"{location}: the {side} text is empty. Write a sentence.")
                if length > len(ids) and not self.truncate:
                    where = f"{location}: {side} text"
                    raise self._limit_error(where, f"{length} tokens", f"max_{side}_length")
        return encoded

    # Evaluation and reports.

    def evaluate(self, examples: LabelledPairs, **search_overrides: Any) -> dict[str, Any]:
        """Compute the metrics of the target.

        Of the search options, only `batch_size` may be given.

        Returns:
            `pairs`, `sources_truncated` (pairs of which tokens were dropped), `unknown` (unknown
            tokens), and the metrics of `score_matches`.

        Raises:
            ValueError: if a text is too long without `truncate`, or a class is unknown (file:line).
        """
        batch_size = self.read_batch_size(**search_overrides)
        if self.target == "classification":
            index_labels(examples, self.classes)  # raises ValueError
        check_target(examples, self.target)
        pairs = list(zip(examples.firsts, examples.seconds, strict=True))
        encoded = self._encode_checked(pairs, examples.locations())
        outputs: list[Any] = [None] * len(encoded)
        for row, output in self._run(encoded, batch_size):
            outputs[row] = output["outputs"]
            if np.isnan(outputs[row]).any():
                raise ValueError(f"{examples.locations()[row]}: {NAN_LOGITS}")
        tokens = [ids for pair in encoded for ids in pair[:2]]
        counts = {
            "pairs": len(encoded),
            "sources_truncated": sum(pair.is_truncated for pair in encoded),
            "unknown": sum(ids.count(self.tokenizer.unknown) for ids in tokens),
        }
        return {**counts, **score_matches(np.stack(outputs), examples, self.target, self.classes)}

    def write_report(self, results: Sequence[MatchingResult], path: Any) -> None:
        """Write pairs with their alignment as a picture and a table as one HTML page."""
        from attention_zoo import inspection

        inspection.write_matched_page(results, path)

    # Saving and export.

    def get_saved_fields(self) -> dict[str, Any]:
        """Return the target, and mean and deviation of the numbers."""
        return {name: vars(self)[name] for name in ("target", "score_mean", "score_deviation")}

    @classmethod
    def load_fields(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return the target, and mean and deviation of the numbers."""
        return {name: content[name] for name in ("target", "score_mean", "score_deviation")}

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the matcher as a `tf.Module` that takes strings."""
        from attention_zoo.tasks.matching.export import MatchingModule

        refuse_rules(rules, self.name)
        return MatchingModule(self)
