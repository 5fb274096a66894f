"""Exported summarizer of raw articles: copy ids, search and origins of words in one graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.data import PublicTokenizer, Tokenizer
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
        self.copies = GraphCopies(task.tokenizer, task.copies)
        self._trace = getattr(task.model, "trace", None)
        self._prefix, self._num_special = task.source_prefix, task.num_special_tokens
        self._start, self._end = task.special_ids
        self._start_labels = task.tokenizer.tokens(self._start)
        self._has_piece_labels = isinstance(task.tokenizer, Tokenizer)
        self._is_byte_level = isinstance(task.tokenizer, PublicTokenizer)
        self._num_positions = getattr(task.model, "max_length", None)
        self._longest = task.max_source_length - self._num_special
        self._truncates = task.truncate_source
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
        ids, pieces, words = self.copies.encode(self._add_prefix(text))
        lengths = ids.row_lengths()

        def summarize(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            row_ids, row_pieces = self._gather_sources(rows, ids, pieces)
            source, surfaces = pad_ragged(row_ids), row_pieces.to_tensor("")
            result, copied = self._trace_search(source, self._search(source, options))
            decode = functools.partial(self.copies.decode, words=tf.gather(words, rows))
            copied_surfaces = None if self._is_byte_level else surfaces
            outputs = self.format_hypotheses(result, copied_surfaces, decode)
            longest = tf.shape(outputs["tokens"])[2]
            generated = tf.sequence_mask(outputs["lengths"], longest)
            copied = tf.where(generated, copied[:, :, :longest], 0.0)
            return {
                **outputs,
                "copied": copied,
                "origins": _origins(
                    source, result.tokens[:, :, :longest], outputs["attention"], copied
                ),
                "source_tokens": self._label(row_ids, row_pieces),
                "source_truncated": tf.gather(lengths, rows) > self._longest,
            }

        return serve_valid_rows(get_first_error(*self._check_lengths(text, lengths)), summarize)

    def _add_prefix(self, texts: tf.Tensor) -> tf.Tensor:
        """Return the texts `(B,)` after the prefix of all sources."""
        return tf.strings.join([self._prefix, texts]) if self._prefix else texts

    def _gather_sources(
        self, rows: tf.Tensor, ids: tf.RaggedTensor, pieces: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Return ids and pieces of some rows, truncated and with special tokens."""
        selected = tf.gather(ids, rows)[:, : self._longest]
        strings = tf.gather(pieces, rows)[:, : self._longest]
        return (
            _add_special_values(selected, self._start, self._end),
            _add_special_values(strings, [""] * len(self._start), [""] * len(self._end)),
        )

    def _label(self, ids: tf.RaggedTensor, pieces: tf.RaggedTensor) -> tf.Tensor:
        """Return the labels of source tokens, `(B, S)` strings."""
        if self._has_piece_labels:
            return self.tokenizer.bare(pieces.to_tensor(""))
        return ids.with_flat_values(self.tokenizer.labels(ids.flat_values)).to_tensor("")

    def _score(self, text: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        ids, pieces, words = self.copies.encode(self._add_prefix(text))
        targets, labels = self.copies.encode_targets(target, words)
        targets = _add_special_values(targets, self._start, [])
        labels = _add_special_values(labels, self._start_labels, [])

        def score(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            source = pad_ragged(self._gather_sources(rows, ids, pieces)[0])
            return self.score_targets(source, tf.gather(targets, rows), tf.gather(labels, rows))

        checks = self._check_lengths(text, ids.row_lengths())
        if self._num_positions is not None:
            checks += (_check_target(targets.row_lengths() + 1, self._num_positions),)
        return serve_valid_rows(get_first_error(*checks), score)

    def _check_lengths(self, texts: tf.Tensor, lengths: tf.Tensor) -> tuple[Check, ...]:
        """Return the checks of texts `(B,)` with these numbers of tokens, prefix included."""
        text_lengths = self.tokenizer.encode(texts)[0].row_lengths() if self._prefix else lengths
        if self._truncates:
            return (check_empty(text_lengths),)
        limit = self._longest + self._num_special
        return check_empty(text_lengths), check_long(lengths + self._num_special, limit)

    def _trace_search(self, source: tf.Tensor, result: Any) -> tuple[Any, tf.Tensor]:
        """Return the result with the attention of a trace, and copy probabilities `(B, n, L)`.

        Models that cannot copy have no trace.
        """
        if self._trace is None:
            return result, tf.zeros(tf.shape(result.tokens))
        longest = tf.maximum(tf.reduce_max(result.lengths), 1)  # empty batch: decoders need a step
        tokens = result.tokens[:, :, :longest]
        rows, shape = tf.repeat(source, tf.shape(tokens)[1], axis=0), tf.shape(tokens)
        output = self._trace(rows, tf.reshape(tokens, [-1, longest]))
        attention = tf.reshape(output.attention, tf.concat([shape, tf.shape(source)[1:]], 0))
        return result._replace(attention=attention), tf.reshape(output.copied, shape)


def _check_target(lengths: tf.Tensor, limit: int) -> Check:
    """Return a check that fails for targets with more tokens, including the end, than a limit."""
    count = tf.strings.as_string(lengths)
    message = tf.strings.join(
        ["the target has ", count, f" tokens with its end token, the limit is {limit}. Shorten it."]
    )
    return lengths > limit, message


def _add_special_values(
    values: tf.RaggedTensor, start: list[Any], end: list[Any]
) -> tf.RaggedTensor:
    """Return ragged rows between special values."""
    for side, special in ((0, start), (1, end)):
        if special:
            row = tf.constant([special], values.dtype)
            rows = tf.RaggedTensor.from_tensor(tf.repeat(row, values.nrows(), axis=0))
            values = tf.concat([rows, values] if side == 0 else [values, rows], axis=1)
    return values


def _origins(
    source: tf.Tensor, ids: tf.Tensor, attention: tf.Tensor, copied: tf.Tensor
) -> tf.Tensor:
    """Return `tasks.summarization.result.origins` of ids `(B, n, L)`, int32."""
    matches = ids[..., None] == source[:, None, None]
    masked_weights = tf.where(matches, attention, -1.0)
    is_copied = (copied >= COPIED) & tf.reduce_any(matches, axis=-1)
    return tf.where(is_copied, tf.argmax(masked_weights, axis=-1, output_type="int32"), -1)
