"""Exported summarizer of raw articles: copy ids, search and origins of words in one graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.decoding import Rule
from attention_zoo.export.checks import (
    Check,
    check_empty,
    check_long,
    get_first_error,
    serve_valid_rows,
)
from attention_zoo.export.graph_copies import GraphCopies
from attention_zoo.export.modules import SearchModule, pad_ragged
from attention_zoo.tasks.summarization.result import COPIED


class SummarizationModule(SearchModule):
    """`task.predict` of articles in core TensorFlow operations, with the same results."""

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        self.copies = GraphCopies(task.tokenizer, task.model.copies)
        self._trace = task.model.trace
        self._longest, self._truncates = task.max_source_length, task.truncate_source
        super().__init__(task, rules, self.copies.tokenizer)

    def get_max_length(self, task: Any) -> int:
        """Return the limit of texts or that of summaries, which are decoded again in parallel."""
        return int(max(task.max_source_length, task.max_target_length))

    def _serve(self, text: tf.Tensor, **values: tf.Tensor) -> dict[str, tf.Tensor]:
        """Summarize articles `(B,)`.

        Returns:
            The outputs of `format_hypotheses` and `serve_valid_rows`; `copied` (B, n, L), the
            probability that each token was copied; `origins` (B, n, L), the source position that a
            copied token came from, else -1; `source_tokens` (B, S) strings; `source_truncated`
            (B,), True if an article was truncated.
        """
        options = self._make_options(values)
        ids, pieces, words = self.copies.encode(text)
        lengths = ids.row_lengths()

        def summarize(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            source = pad_ragged(tf.gather(ids, rows)[:, : self._longest])
            surfaces = tf.gather(pieces, rows)[:, : self._longest].to_tensor("")
            result, copied = self._trace_search(source, self._search(source, options))
            decode = functools.partial(self.copies.decode, words=tf.gather(words, rows))
            outputs = self.format_hypotheses(result, surfaces, decode)
            longest = tf.shape(outputs["tokens"])[2]
            generated = tf.sequence_mask(outputs["lengths"], longest)
            copied = tf.where(generated, copied[:, :, :longest], 0.0)
            return {
                **outputs,
                "copied": copied,
                "origins": _origins(
                    source, result.tokens[:, :, :longest], outputs["attention"], copied
                ),
                "source_tokens": self.tokenizer.bare(surfaces),
                "source_truncated": tf.gather(lengths, rows) > self._longest,
            }

        return serve_valid_rows(get_first_error(*self._check_lengths(lengths)), summarize)

    def _score(self, text: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        ids, _, words = self.copies.encode(text)
        targets, labels = self.copies.encode_targets(target, words)

        def score(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            source = pad_ragged(tf.gather(ids, rows)[:, : self._longest])
            return self.score_targets(source, tf.gather(targets, rows), tf.gather(labels, rows))

        return serve_valid_rows(get_first_error(*self._check_lengths(ids.row_lengths())), score)

    def _check_lengths(self, lengths: tf.Tensor) -> tuple[Check, ...]:
        checks = (check_empty(lengths), check_long(lengths, self._longest))
        return checks[:1] if self._truncates else checks

    def _trace_search(self, source: tf.Tensor, result: Any) -> tuple[Any, tf.Tensor]:
        """Return the result with the attention of a trace, and copy probabilities `(B, n, L)`."""
        longest = tf.maximum(tf.reduce_max(result.lengths), 1)  # empty batch: decoders need a step
        tokens = result.tokens[:, :, :longest]
        rows, shape = tf.repeat(source, tf.shape(tokens)[1], axis=0), tf.shape(tokens)
        output = self._trace(rows, tf.reshape(tokens, [-1, longest]))
        attention = tf.reshape(output.attention, tf.concat([shape, tf.shape(source)[1:]], 0))
        return result._replace(attention=attention), tf.reshape(output.copied, shape)


def _origins(
    source: tf.Tensor, ids: tf.Tensor, attention: tf.Tensor, copied: tf.Tensor
) -> tf.Tensor:
    """Return `tasks.summarization.result.origins` of ids `(B, n, L)`, int32."""
    matches = ids[..., None] == source[:, None, None]
    masked_weights = tf.where(matches, attention, -1.0)
    is_copied = (copied >= COPIED) & tf.reduce_any(matches, axis=-1)
    return tf.where(is_copied, tf.argmax(masked_weights, axis=-1, output_type="int32"), -1)
