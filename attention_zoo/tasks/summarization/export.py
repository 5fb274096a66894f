"""A served summarizer of raw articles: copy ids, search and origins of words in one graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.data.tokenizers.vocabulary import PAD, UNKNOWN
from attention_zoo.decoding import Rule
from attention_zoo.export.checks import refuse_empty, refuse_long
from attention_zoo.export.graph_copies import GraphCopies
from attention_zoo.tasks.summarization.result import COPIED


class ServedSummarization(tf.Module):
    """`task.predict` of articles in core TensorFlow operations.

    The results are those of `predict`. A batch with an empty article, or with a too long one if the
    task does not truncate, is rejected as a whole (`InvalidArgumentError` with the row).

    Args:
        task: a `tasks.Summarization`.
        rules: additional decoding rules.

    Raises:
        ValueError: if the tokenizer is not a registered `data.Tokenizer`.
    """

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        super().__init__(name="summarization")
        self.weights = [variable.value for variable in task.model.variables]
        self.texts = GraphCopies(task.tokenizer, task.model.copies)
        options = task.search_options()
        self._search = functools.partial(task.model.search, options=options, rules=rules)
        self._trace = task.model.trace
        self._replaces = options.replace_unknown
        self._longest, self._truncates = task.max_source_length, task.truncate_source

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        autograph=False,  # autograph would wrap the errors of the search
    )
    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Summarize articles `(B,)`; see `answers` for the outputs."""
        ids, pieces, words = self.texts.encode(text)
        lengths = ids.row_lengths()
        checks = [refuse_empty(lengths)]
        if not self._truncates:
            checks.append(refuse_long(lengths, self._longest, "tokens, the limit is"))
        with tf.control_dependencies(checks):
            source = ids[:, : self._longest].to_tensor(PAD)
        shown = pieces[:, : self._longest].to_tensor("")
        no_column = tf.cast(tf.shape(source)[1] == 0, "int32")  # encoders need a column
        source = tf.pad(source, [[0, 0], [0, no_column]], constant_values=PAD)
        served = self.answers(self._search(source), source, shown, words)
        return {**served, "source_truncated": lengths > self._longest}

    def answers(
        self, found: Any, source: tf.Tensor, pieces: tf.Tensor, words: tf.RaggedTensor
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of the signature.

        Args:
            found: a `SearchResult`.
            source: `(B, S)` ids, including those of copied words.
            pieces: `(B, S)` strings, the text of each id.
            words: ragged `(B, K)`, the text of the ids past the vocabulary.

        Returns:
            `text` (B, n); `scores` (B, n); `lengths` (B, n), numbers of tokens without the end
            token; `finished` (B, n), False for a truncated output; `tokens` (B, n, L) strings;
            `token_scores` (B, n, L); `copied` (B, n, L), the probability that each token was
            copied; `origins` (B, n, L), the source position that a copied token came from, else -1;
            `attention` (B, n, L, S); `source_tokens` (B, S) strings. `serve` adds
            `source_truncated` (B,), True if an article was truncated. Past the length, tokens are
            "", origins -1 and other numbers 0. Hypotheses that are missing because the search
            finds fewer than n have score -inf.
        """
        lengths = found.lengths - tf.cast(found.finished, "int32")
        longest = tf.maximum(tf.reduce_max(found.lengths), 0)  # below 0 for an empty batch
        ids = found.tokens[:, :, :longest]
        generated = tf.range(longest) < lengths[..., None]
        attention, copied = self._traced(source, found.tokens, longest, generated)
        surfaces, labels = self.texts.shown(ids, words)
        if self._replaces:
            most = tf.argmax(attention, axis=-1, output_type="int32")
            most_attended, unknown = tf.gather(pieces, most, batch_dims=1), ids == UNKNOWN
            surfaces = tf.where(unknown, most_attended, surfaces)
            labels = tf.where(unknown, self.texts.tokenizer.bare(most_attended), labels)
        return {
            "text": self.texts.tokenizer.text(tf.where(generated, surfaces, "")),
            "scores": found.scores,
            "lengths": lengths,
            "finished": found.finished,
            "tokens": tf.where(generated, labels, ""),
            "token_scores": found.token_scores[:, :, :longest],
            "copied": copied,
            "origins": _origins(source, ids, attention, copied),
            "attention": attention,
            "source_tokens": self.texts.tokenizer.bare(pieces),
        }

    def _traced(
        self, source: tf.Tensor, tokens: tf.Tensor, longest: tf.Tensor, generated: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return attention weights `(B, n, L, S)` and copy probabilities `(B, n, L)` by a trace."""
        count, places = tf.shape(tokens)[1], tf.shape(source)[1]
        tokens = tokens[:, :, : tf.maximum(longest, 1)]  # empty batch: decoders need a step
        shape = tf.shape(tokens)
        rows = tf.repeat(source, count, axis=0)
        output = self._trace(rows, tf.reshape(tokens, [-1, shape[2]]))
        attention = tf.reshape(output.attention, tf.concat([shape, [places]], 0))
        copied = tf.reshape(output.copied, shape)
        return (
            tf.where(generated[..., None], attention[:, :, :longest], 0.0),
            tf.where(generated, copied[:, :, :longest], 0.0),
        )


def _origins(
    source: tf.Tensor, ids: tf.Tensor, attention: tf.Tensor, copied: tf.Tensor
) -> tf.Tensor:
    """Return `tasks.summarization.result.origins` of ids `(B, n, L)`, int32."""
    there = ids[..., None] == source[:, None, None]
    masked_weights = tf.where(there, attention, -1.0)
    taken = tf.logical_and(copied >= COPIED, tf.reduce_any(there, axis=-1))
    return tf.where(taken, tf.argmax(masked_weights, axis=-1, output_type="int32"), -1)
