"""Exported matcher of raw texts: tokens, model, and classes or a number in one graph."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from attention_zoo.export.checks import (
    NAN_LOGITS,
    Check,
    check_empty,
    check_long,
    get_first_error,
    serve_valid_rows,
)
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer
from attention_zoo.export.modules import STRINGS, Inputs, TaskModule, pad_ragged, slice_to
from attention_zoo.tasks.matching.inference import MatcherInference
from attention_zoo.tasks.matching.texts import SIDES


class MatchingModule(TaskModule):
    """`task.predict` of pairs of texts in core TensorFlow operations, with the same results.

    Args:
        task: a `tasks.Matching`.

    Raises:
        ValueError: if the tokenizer is not a registered `data.Tokenizer`.
    """

    inputs: ClassVar[Inputs] = {"first": STRINGS, "second": STRINGS}

    def __init__(self, task: Any) -> None:
        self.tokenizer = make_graph_tokenizer(task.tokenizer)
        self._limits, self._truncates = task.text_limits, task.truncate
        self._target, self._classes = task.target, task.model.classes
        self._scale = task.score_mean, task.score_deviation
        self._inference = MatcherInference(task.model, attention=True)
        super().__init__(task)

    def get_max_length(self, task: Any) -> int:
        """Return the limit of the longer text."""
        return max(task.text_limits)

    def _serve(self, first: tf.Tensor, second: tf.Tensor) -> dict[str, tf.Tensor]:
        """Match texts `(B,)` and `(B,)`.

        Returns:
            The outputs of `format_outputs` and `serve_valid_rows`; `first_tokens` (B, S) and
            `second_tokens` (B, T) strings, "" at padding; and `attention` (B, S, T), the alignment,
            if the model has attention.
        """
        message = ["first and second must have as many texts, got", tf.size(first), tf.size(second)]
        with tf.control_dependencies(
            [tf.debugging.Assert(tf.size(first) == tf.size(second), message)]
        ):
            ids = [self.tokenizer.encode(texts)[0] for texts in (tf.identity(first), second)]
        truncated = [one[:, :limit] for one, limit in zip(ids, self._limits, strict=True)]
        checks = [
            check
            for side in zip(SIDES, ids, self._limits, strict=True)
            for check in self._make_checks(*side)
        ]

        def match(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            tokens = {
                name: tf.gather(one, rows) for name, one in zip(SIDES, truncated, strict=True)
            }
            inputs = {name: pad_ragged(one) for name, one in tokens.items()}
            outputs = self._inference(inputs, training=False)
            labels = {
                f"{name}_tokens": one.with_flat_values(
                    self.tokenizer.labels(one.flat_values)
                ).to_tensor("")
                for name, one in tokens.items()
            }
            alignment = {}
            if "alignment" in outputs:
                sizes = [tf.shape(labels[f"{name}_tokens"]) for name in SIDES]
                shape = tf.concat([sizes[0], sizes[1][1:]], 0)
                alignment["attention"] = slice_to(outputs["alignment"], shape)
            return {**self.format_outputs(outputs["outputs"]), **labels, **alignment}

        return serve_valid_rows(get_first_error(*checks), match)

    def _make_checks(self, side: str, ids: tf.RaggedTensor, limit: int) -> list[Check]:
        """Return the checks that `predict` makes of the token ids of one side."""
        lengths = ids.row_lengths()
        checks = [check_empty(lengths, f"the {side} text is empty. Write a sentence.")]
        return checks if self._truncates else [*checks, check_long(lengths, limit)]

    def format_outputs(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the outputs of the signature that do not depend on tokens.

        Args:
            outputs: those of a `MatcherInference`.

        Returns:
            With classes, `text` (B,) strings, name of the predicted class; `scores` (B,), its log
            probability; `probabilities` (B, K), and `classes` (B, K) strings. Else `scores` (B,):
            the number, or the log probability that the pair is relevant. `error` (B,) strings.
        """
        is_invalid = tf.reduce_any(tf.math.is_nan(outputs) | (outputs == float("inf")), axis=1)
        error = {"error": get_first_error((is_invalid, NAN_LOGITS))}
        if self._target == "regression":
            mean, deviation = self._scale
            return {"scores": outputs[:, 0] * deviation + mean, **error}
        if self._target == "ranking":
            return {"scores": tf.math.log_sigmoid(outputs[:, 0]), **error}
        names = tf.broadcast_to(tf.constant(self._classes), tf.shape(outputs))
        best = tf.argmax(outputs, axis=1)
        return {
            "text": tf.gather(names, best, batch_dims=1),
            "scores": tf.gather(outputs, best, batch_dims=1),
            "probabilities": tf.exp(outputs),
            "classes": names,
            **error,
        }
