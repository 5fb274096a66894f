"""Exported masked language model of raw texts: tokenizer, model and filled texts in one graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from attention_zoo.data.tokenizers.vocabulary import PAD, UNKNOWN
from attention_zoo.export.checks import check_long, get_first_error, serve_valid_rows
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer
from attention_zoo.export.modules import TaskModule, pad_ragged
from attention_zoo.tasks.masked_language_modeling.masks import MASK, PRIVATE_USE, get_default_top

NO_MASK = f"the text has no {MASK}; put it at each token to predict"


class MaskedLanguageModelModule(TaskModule):
    """`task.predict` of masked language modeling in core TensorFlow operations.

    The results are those of `predict`.

    Args:
        task: a `tasks.MaskedLanguageModeling`.

    Raises:
        ValueError: if the tokenizer cannot be exported.
    """

    def __init__(self, task: Any) -> None:
        self.tokenizer, self._model = make_graph_tokenizer(task.tokenizer), task.model
        self._mask, self._ends = task.mask, (task.tokenizer.start, task.tokenizer.end)
        self._candidates = tf.constant(task.candidate_tokens, tf.int32)
        self._longest = task.longest - task.num_special_tokens
        self._placeholders = None
        if task.tokenizer.mask is None:
            known = set("".join(task.tokenizer.vocabulary))
            self._placeholders = [x for x in map(chr, PRIVATE_USE) if x not in known][:2]
        super().__init__(task)

    def _make_defaults(self, task: Any) -> dict[str, Any]:
        return {"top": np.int32(get_default_top(task.search.n_best, len(task.candidate_tokens)))}

    def _serve(self, text: tf.Tensor, top: tf.Tensor) -> dict[str, tf.Tensor]:
        """Fill the masks of texts `(B,)` with the `top` most probable tokens.

        Returns:
            `text` (B, n) strings, the text with the most probable token at every mask, then with
            the second, and so on; `scores` (B, n), sums of the log probabilities of these tokens;
            `predictions` (B, M, n) strings and `probabilities` (B, M, n), the tokens of each of the
            M masks; `source_tokens` (B, S) strings; the outputs of `serve_valid_rows`.
        """
        count = tf.size(self._candidates)
        message = ["top must be from 1 to", count, "got", top]
        with tf.control_dependencies([tf.debugging.Assert((top > 0) & (top <= count), message)]):
            top = tf.identity(top)
        ids = self._encode(text)
        has_mask = tf.reduce_any(ids == self._mask, axis=1)
        too_long = check_long(tf.cast(ids.row_lengths(), "int32"), self._longest)
        errors = get_first_error(too_long, (~has_mask, NO_MASK))
        return serve_valid_rows(errors, lambda rows: self._fill(tf.gather(ids, rows), top))

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of texts, in which each `[MASK]` is one mask token.

        For a tokenizer without a mask token, a private-use character stands in for it.
        """
        if self._placeholders is None:
            return self.tokenizer.encode(texts)[0]
        placeholder, replacement = self._placeholders
        texts = tf.strings.regex_replace(texts, placeholder, replacement)
        texts = tf.strings.regex_replace(texts, r"\[MASK\]", placeholder)
        ids, pieces = self.tokenizer.encode(texts)
        has_placeholder = tf.strings.regex_full_match(pieces.flat_values, f"(?s).*{placeholder}.*")
        is_mask = has_placeholder & (ids.flat_values == UNKNOWN)
        return ids.with_flat_values(tf.where(is_mask, self._mask, ids.flat_values))

    def _fill(self, ids: tf.RaggedTensor, top: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the outputs for texts with masks, ragged `(B, S)`."""
        start, end = (tf.fill([ids.nrows(), 1], token) for token in self._ends)
        tokens = pad_ragged(tf.concat([start, ids, end], axis=1))
        projection = self._model({"tokens": tokens}, training=False, project=False)
        hidden = tf.boolean_mask(projection.hidden, tokens == self._mask)
        logits = projection._replace(hidden=tf.cast(hidden, "float32")).logits()
        log_probs = tf.gather(ops.log_softmax(logits, axis=-1), self._candidates, axis=-1)
        scores, best = tf.math.top_k(log_probs, top)  # (masks, n)
        best = tf.gather(self._candidates, best)
        dense = ids.to_tensor(PAD)
        is_mask = dense == self._mask
        rows = tf.where(is_mask)[:, 0]
        shape = tf.concat([tf.shape(dense), tf.shape(best)[1:]], 0)
        filled = tf.broadcast_to(dense[:, :, None], shape)
        filled = tf.tensor_scatter_nd_update(filled, tf.where(is_mask), best)
        surfaces = self.tokenizer.surfaces(tf.transpose(filled, [0, 2, 1]))
        is_token = tf.sequence_mask(ids.row_lengths(), tf.shape(dense)[1])
        labels = self.tokenizer.labels(tf.where(is_mask, PAD, dense))
        labels = tf.where(is_mask, MASK, labels)
        per_text = tf.RaggedTensor.from_value_rowids(scores, rows, ids.nrows())
        words = per_text.with_values(self.tokenizer.labels(best))
        return {
            "text": self.tokenizer.text(tf.where(is_token[:, None], surfaces, "")),
            "scores": tf.math.segment_sum(scores, rows),
            "predictions": words.to_tensor(""),
            "probabilities": tf.exp(per_text).to_tensor(),
            "source_tokens": tf.where(is_token, labels, ""),
        }
