"""A served translator of raw texts: tokenizers, search and attention in one graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.data.tokenizers.vocabulary import PAD, UNKNOWN
from attention_zoo.decoding import Rule
from attention_zoo.export.checks import refuse_empty, refuse_long
from attention_zoo.export.graph_tokenizer import GraphTokenizer


class ServedTranslation(tf.Module):
    """`task.predict` of translation in core TensorFlow operations.

    The results are those of `predict`. A batch with an empty or too long source is rejected as a
    whole (`InvalidArgumentError` with the row).
    """

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        super().__init__(name="translation")
        self.weights = [variable.value for variable in task.model.variables]
        self.source, self.target = map(
            GraphTokenizer, (task.source_tokenizer, task.target_tokenizer)
        )
        self._search = functools.partial(task.model.search, options=task.search, rules=rules)
        self._copies = task.search.replace_unknown
        self._longest = task.max_source_length

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        autograph=False,  # autograph would wrap the errors of the search
    )
    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translate texts `(B,)`; see `answers` for the outputs."""
        ragged, pieces = self.source.encode(text)
        with tf.control_dependencies(self._checks(ragged.row_lengths())):
            source = ragged.to_tensor(PAD)
        no_column = tf.cast(tf.shape(source)[1] == 0, "int32")  # encoders need a column
        source = tf.pad(source, [[0, 0], [0, no_column]], constant_values=PAD)
        found = self._search(source)
        return self.answers(found, source, pieces.to_tensor(""))

    def answers(self, found: Any, source: tf.Tensor, pieces: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the outputs of the signature.

        Args:
            found: a `SearchResult`.
            source: `(B, S)` ids.
            pieces: `(B, S)` strings, the text of each id.

        Returns:
            `text` (B, n); `scores` (B, n); `lengths` (B, n), numbers of tokens without the end
            token; `finished` (B, n), False for a truncated output; `tokens` (B, n, L) strings;
            `token_scores` (B, n, L); `source_tokens` (B, S) strings; `attention` (B, n, L, S) if
            the model has attention. Past the length, tokens are "" and numbers are 0. Hypotheses
            that are missing because the search finds fewer than n have score -inf.
        """
        lengths = found.lengths - tf.cast(found.finished, "int32")
        longest = tf.maximum(tf.reduce_max(found.lengths), 0)  # below 0 for an empty batch
        ids = found.tokens[:, :, :longest]
        generated = tf.range(longest) < lengths[..., None]
        surfaces, labels = self.target.surfaces(ids), self.target.labels(ids)
        served = {
            "scores": found.scores,
            "lengths": lengths,
            "finished": found.finished,
            "token_scores": found.token_scores[:, :, :longest],
            "source_tokens": tf.where(source == PAD, "", self.source.labels(source)),
        }
        if found.attention is not None:
            attention = found.attention[:, :, :longest]
            served["attention"] = tf.where(
                generated[..., None], attention, tf.zeros_like(attention)
            )
            if self._copies:
                surfaces, labels = self._copied(ids, attention, pieces, surfaces, labels)
        served["text"] = self.target.text(tf.where(generated, surfaces, ""))
        served["tokens"] = tf.where(generated, labels, "")
        return served

    def _copied(
        self, ids: tf.Tensor, attention: tf.Tensor, pieces: tf.Tensor, *shown: tf.Tensor
    ) -> list[tf.Tensor]:
        """Replace unknown tokens by the source piece with the greatest attention weight."""
        most = tf.argmax(attention, axis=-1, output_type="int32")
        copied = tf.gather(pieces, most, batch_dims=1)
        surfaces, labels = shown
        bare = self.target.bare(copied)
        unknown = ids == UNKNOWN
        return [tf.where(unknown, copied, surfaces), tf.where(unknown, bare, labels)]

    def _checks(self, lengths: tf.Tensor) -> list[tf.Operation]:
        """Return assertions that reject what `predict` rejects, with the first such row."""
        long = refuse_long(lengths, self._longest, "tokens, the limit is")
        return [refuse_empty(lengths), long]
