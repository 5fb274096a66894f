"""Base classes of exported modules, and parts that they share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from attention_zoo.data.tokenizers.vocabulary import END, PAD, UNKNOWN
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.decoding.options import NUMBER_RANGES, SCALAR_INTEGERS
from attention_zoo.export.checks import get_first_error
from attention_zoo.layers.attention.expected_lengths import expect_long_sequences
from attention_zoo.layers.attention.steps import is_long_sequence

NO_LIMIT = np.iinfo("int32").max

Inputs = Mapping[str, tf.TensorSpec]


def make_signature_function(
    serve: Callable[..., Any],
    inputs: Inputs,
    defaults: Mapping[str, Any] | None = None,
    expect_long: bool = False,
) -> Any:
    """Compile a function with `tf.function`, for use as a signature.

    AutoGraph is off, because it would hide the messages of errors raised while tracing.

    Args:
        serve: takes the inputs by position and the optional inputs by keyword.
        inputs: the specs of the inputs, by name.
        defaults: the default values of optional inputs, by name; vectors may have any length.
        expect_long: whether sequences may be long, see `expect_long_sequences`.
    """
    defaults = {name: tf.constant(value) for name, value in (defaults or {}).items()}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in inputs]
    parameters += [inspect.Parameter(n, kind, default=value) for n, value in defaults.items()]

    def call(*values: tf.Tensor, **optional: tf.Tensor) -> Any:
        bound = signature.bind(*values, **optional)
        bound.apply_defaults()
        arguments = bound.arguments
        positional = [arguments.pop(name) for name in inputs]
        with expect_long_sequences(expect_long):
            return serve(*positional, **arguments)

    signature = inspect.Signature(parameters)
    call.__signature__ = signature  # type: ignore[attr-defined]
    specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in inputs.items()]
    specs += [
        tf.TensorSpec([None] * len(value.shape), value.dtype, name)
        for name, value in defaults.items()
    ]
    return tf.function(call, input_signature=specs, autograph=False)


STRINGS = tf.TensorSpec([None], tf.string)


def add_special_tokens(ids: tf.RaggedTensor, special_ids: Sequence[int] | None) -> tf.RaggedTensor:
    """Return token ids, ragged `(B, P)`, between a start and an end token; unchanged for None."""
    if special_ids is None:
        return ids
    start, end = (tf.fill([ids.nrows(), 1], token) for token in special_ids)
    return tf.concat([start, ids, end], axis=1)


def pad_ragged(ids: tf.RaggedTensor) -> tf.Tensor:
    """Pad ids to a dense tensor with at least one position in each axis but the batch.

    Encoders do not accept empty sequences.
    """
    dense = ids.to_tensor(PAD)
    missing = tf.cast(tf.shape(dense) == 0, "int32")
    missing = tf.concat([[0], missing[1:]], axis=0)  # the batch may stay empty
    paddings = tf.stack([tf.zeros_like(missing), missing], axis=1)
    return tf.pad(dense, paddings, constant_values=PAD)


def slice_to(x: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Return the first positions of each axis, without those that `pad_ragged` added."""
    return tf.slice(x, tf.zeros_like(shape), shape)


def _require_in_range(name: str, value: tf.Tensor) -> tf.Tensor:
    """Return the scalar; fail if it is outside the range of this search option."""
    low, high = (SCALAR_INTEGERS | NUMBER_RANGES)[name]
    high = min(high, value.dtype.max)  # infinity is refused
    is_valid = (value >= low) & (value <= high)
    message = [f"{name} must be from {low} to {high}, got", value]
    with tf.control_dependencies([tf.debugging.Assert(is_valid, message)]):
        return tf.identity(value)


def require_one_per_source(values: tf.Tensor, count: tf.Tensor, noun: str) -> tf.Tensor:
    """Return the values, one for each of `count` sources; fail for another number of values."""
    message = [f"expected one {noun} for each of the", count, "sources, got", tf.size(values)]
    with tf.control_dependencies([tf.debugging.Assert(tf.size(values) == count, message)]):
        return tf.identity(values)


class TaskModule(tf.Module):
    """Base class of exported tasks. It holds the model's variables, which TensorFlow then saves.

    A subclass defines `inputs` and `_serve`.

    Attributes:
        inputs: the inputs of the default signature; `_serve` takes them by position, and
            optional inputs by keyword.
        joint_signatures: names of the signatures whose outputs depend on all rows together, and
            whose inputs may have different numbers of rows. A server must not compute their
            requests in one batch.
        serve: `_serve` in a `tf.function`; it takes optional inputs as keyword arguments.
    """

    inputs: ClassVar[Inputs] = {"text": STRINGS}
    joint_signatures: ClassVar[tuple[str, ...]] = ()

    def __init__(self, task: Any) -> None:
        super().__init__()
        # `tf.Module.variables` does not find Keras variables.
        self.weights = [variable.value for variable in task.model.variables]
        self._defaults = self._make_defaults(task)
        self._expect_long = is_long_sequence(self.get_max_length(task))
        self.serve = self._compile(self._serve, self.inputs, self._defaults)

    def _compile(
        self, serve: Callable[..., Any], inputs: Inputs, defaults: Mapping[str, Any] | None = None
    ) -> Any:
        """Compile the function of a signature, for sources as long as the task accepts."""
        return make_signature_function(serve, inputs, defaults, self._expect_long)

    def get_max_length(self, task: Any) -> int:
        """Return the maximum length of a source that the task accepts; 0 for images."""
        options = task.options
        return int(options.get("max_source_length", options.get("max_length", 0)))

    def _make_defaults(self, task: Any) -> dict[str, Any]:
        """Return the default values of optional inputs as NumPy values."""
        return {}

    def _serve(self, *inputs: tf.Tensor, **values: tf.Tensor) -> dict[str, tf.Tensor]:
        raise TypeError(f"{type(self).__name__} is a base class: define `_serve`")

    def make_signatures(self) -> dict[str, Any]:
        """Return the functions to export, by the name of their signature.

        TensorFlow in Python requires all inputs of a signature, so the one with optional inputs is
        not the default one.
        """
        if not self._defaults:
            return {"serving_default": self.serve}

        def serve(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            constants = {name: tf.constant(value) for name, value in self._defaults.items()}
            outputs: dict[str, tf.Tensor] = self.serve(*inputs, **constants)
            return outputs

        default = self._compile(serve, self.inputs)
        return {"serving_default": default, "serve_with_options": self.serve}


@dataclass(frozen=True)
class ServedOptions(SearchOptions):
    """Search options with a maximum length that is a graph input.

    Args:
        exported_options: options that give the maximum length if the input is `NO_LIMIT`.
    """

    exported_options: SearchOptions = field(default_factory=SearchOptions)

    def limit(self, source_length: Any) -> Any:
        default = self.exported_options.limit(source_length)
        return tf.where(self.max_length == NO_LIMIT, default, self.max_length)


class SearchModule(TaskModule):
    """Base class of exported tasks that generate text by a search.

    Optional inputs of `_serve`: `max_length`, where 0 stands for the exported limit, and with
    sampling `seed` and `temperature`.

    Args:
        task: a `tasks.generation.GenerationTask`.
        rules: additional decoding rules.
        tokenizer: the tokenizer of the outputs, from `make_graph_tokenizer`.
    """

    def __init__(self, task: Any, rules: Sequence[Rule], tokenizer: Any) -> None:
        self.tokenizer, self._options = tokenizer, task.search_options()
        self._search = functools.partial(task.model.search, rules=rules)
        self._model_search = task.model.search
        self._noun = task.output_noun
        super().__init__(task)

    def _make_defaults(self, task: Any) -> dict[str, Any]:
        defaults: dict[str, Any] = {"max_length": np.int32(0)}
        if self._options.method == "sampling":
            defaults["seed"] = np.int64(self._options.seed)
            defaults["temperature"] = np.float32(self._options.temperature)
        return defaults

    def make_signatures(self) -> dict[str, Any]:
        inputs = {**self.inputs, "target": STRINGS}

        def score(source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._score(source, require_one_per_source(target, tf.size(source), "target"))

        return {**super().make_signatures(), "score": self._compile(score, inputs)}

    def _score(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """Compute the log probabilities of targets `(B,)`; see `score_targets` for the outputs."""
        raise TypeError(f"{type(self).__name__} is a base class: define `_score`")

    def _make_options(self, values: Mapping[str, tf.Tensor]) -> ServedOptions:
        """Return the search options with the values of optional inputs."""
        max_length = values["max_length"]
        least = self._options.min_target_length
        message = [f"max_length must be at least {least}, or 0 for the default, got", max_length]
        is_valid = (max_length >= least) | (max_length == 0)
        with tf.control_dependencies([tf.debugging.Assert(is_valid, message)]):
            max_length = tf.where(max_length == 0, NO_LIMIT, max_length)
        fields = {**vars(self._options), "max_length": max_length}
        if "temperature" in values:
            for name in ("seed", "temperature"):
                fields[name] = _require_in_range(name, values[name])
            fields["seed"] = tf.cast(fields["seed"], "uint32")
        return ServedOptions(**fields, exported_options=self._options)

    def score_targets(
        self, source: tf.Tensor, targets: tf.RaggedTensor, labels: tf.RaggedTensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of `score` signatures.

        A search whose prefix is the whole target returns the log probabilities of its tokens.

        Args:
            source: sources, `(B, ..)`.
            targets: target ids without end token, ragged `(B, T)`.
            labels: label of each target id; default: those of the tokenizer.

        Returns:
            `scores` (B,), log probability of each target with its end token; `token_scores`
            (B, T + 1), those of the tokens and of the end token; `tokens` (B, T) strings; `lengths`
            (B,), numbers of tokens without the end token. After the end, tokens are "" and numbers
            are 0.
        """
        ends = tf.RaggedTensor.from_tensor(tf.fill([targets.nrows(), 1], END))
        prefix = pad_ragged(tf.concat([targets, ends], axis=1))
        options = SearchOptions(max_length=tf.shape(prefix)[1])
        result = self._model_search(source, options, prefix=prefix)
        if labels is None:
            labels = targets.with_flat_values(self.tokenizer.labels(targets.flat_values))
        return {
            "scores": result.scores[:, 0],
            "token_scores": result.token_scores[:, 0],
            "tokens": labels.to_tensor(""),
            "lengths": tf.cast(targets.row_lengths(), "int32"),
        }

    def format_hypotheses(
        self,
        result: Any,
        pieces: tf.Tensor | None = None,
        decode: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]] | None = None,
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of all signatures that return hypotheses.

        Args:
            result: a `SearchResult`.
            pieces: `(B, S)` strings, the text of each source token; with the search option
                `replace_unknown`, the piece with the largest attention weight replaces an unknown
                token.
            decode: maps ids to their texts (with space marks) and to their readable labels;
                default: `tokenizer.decode`.

        Returns:
            `text` (B, n); `scores` (B, n); `lengths` (B, n), numbers of tokens without the end
            token; `finished` (B, n), False for a truncated output; `tokens` (B, n, L) strings;
            `token_scores` (B, n, L); `attention` (B, n, L, S) if `result` has attention. At
            positions after the end, tokens are "" and numbers are 0. Hypotheses that are missing
            because the search finds fewer than n have score -inf. `error` (B,) strings: why a
            search failed.
        """
        lengths = result.lengths - tf.cast(result.finished, "int32")
        # The maximum over an empty batch is the lowest int32.
        longest = tf.maximum(tf.reduce_max(result.lengths), 0)
        ids = result.tokens[:, :, :longest]
        generated = tf.sequence_mask(lengths, longest)
        missing = f"the search found no {self._noun}; relax the search options"
        outputs = {
            "scores": result.scores,
            "lengths": lengths,
            "finished": result.finished,
            "error": get_first_error((result.lengths[:, 0] == 0, missing)),
        }
        outputs["token_scores"] = result.token_scores[:, :, :longest]  # 0 after the end
        if result.attention is not None:
            attention = result.attention[:, :, :longest]
            masked = tf.where(generated[..., None], attention, tf.zeros_like(attention))
            outputs["attention"] = masked
        surfaces, labels = (decode or self.tokenizer.decode)(ids)
        if pieces is not None and self._options.replace_unknown:
            best_positions = tf.argmax(outputs["attention"], axis=-1, output_type="int32")
            copied = tf.gather(pieces, best_positions, batch_dims=1)
            unknown = ids == UNKNOWN
            surfaces = tf.where(unknown, copied, surfaces)
            labels = tf.where(unknown, self.tokenizer.bare(copied), labels)
        outputs["text"] = self.tokenizer.text(tf.where(generated, surfaces, ""))
        outputs["tokens"] = tf.where(generated, labels, "")
        return outputs
