"""Exported classifier of raw texts: sentences, tokens, model and probabilities in one graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attention_zoo.export.checks import (
    Check,
    check_empty,
    check_long,
    get_first_error,
    serve_valid_rows,
)
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer
from attention_zoo.export.graph_sentences import GraphSentences
from attention_zoo.export.modules import TaskModule, add_special_tokens, pad_ragged, slice_to
from attention_zoo.tasks.classification.inference import ClassifierInference
from attention_zoo.tasks.classification.result import SEPARATOR, THRESHOLD


class ClassificationModule(TaskModule):
    """`task.predict` of texts in core TensorFlow operations, with the same results.

    Args:
        task: a `tasks.Classification`.

    Raises:
        ValueError: if the tokenizer is not a registered `data.Tokenizer`.
    """

    def __init__(self, task: Any) -> None:
        model = task.model
        self.tokenizer = make_graph_tokenizer(task.tokenizer)
        self.splitter = GraphSentences(task.sentences) if model.has_sentences else None
        self._limits, self._truncates = task.text_limits, task.truncate
        self._special_ids = (
            [task.tokenizer.start, task.tokenizer.end] if model.has_class_token else None
        )
        self._classes, self._is_multi_label = tf.constant(model.classes), model.multi_label
        self._inference = ClassifierInference(model, attention=True)
        super().__init__(task)

    def _serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classify texts `(B,)`.

        Returns:
            The outputs of `format_outputs` and `serve_valid_rows`.
        """
        ids = self._encode(text)
        truncated = self._truncate(ids)

        def classify(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            tokens = tf.gather(truncated, rows)
            inputs = {"tokens": pad_ragged(add_special_tokens(tokens, self._special_ids))}
            return self.format_outputs(tokens, self._inference(inputs, training=False))

        return serve_valid_rows(get_first_error(*self._make_checks(ids, truncated)), classify)

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the token ids of texts `(B,)`, ragged `(B, P)`, or `(B, L, W)` of documents."""
        if self.splitter is None:
            return self.tokenizer.encode(texts)[0]
        sentences = self.splitter.split(texts)
        ids = sentences.with_values(self.tokenizer.encode(sentences.flat_values)[0])
        return split_long_sentences(ids, self._limits.max_sentence_length)

    def _truncate(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Return token ids within the limits."""
        limits = self._limits
        if self.splitter is None:
            return ids[:, : limits.max_length]
        return truncate_documents(ids, limits.max_sentences, limits.max_length)

    def format_outputs(
        self, tokens: tf.RaggedTensor, outputs: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of the signature.

        Args:
            tokens: token ids, ragged `(B, P)`, or `(B, L, W)` of documents.
            outputs: those of a `ClassifierInference`.

        Returns:
            `text` (B,) strings: name of the predicted class; of a multi-label classifier, the names
            of all predicted classes, separated by ", ". `scores` (B,), its log probability.
            `probabilities` (B, K) of all classes, and `classes` (B, K) strings, their names.
            `tokens` (B, P) strings, or (B, L, W) of documents, "" at padding; `attention` of the
            same shape, the weight of each token, and `sentence_attention` (B, L), if the model has
            attention.
        """
        log_probabilities = outputs["log_probabilities"]
        names = tf.broadcast_to(self._classes, tf.shape(log_probabilities)[:2])
        if self._is_multi_label:
            present = log_probabilities[..., 1]
            chosen = tf.exp(present) >= THRESHOLD
            text = tf.strings.reduce_join(
                tf.ragged.boolean_mask(names, chosen), axis=1, separator=SEPARATOR
            )
            scores = tf.reduce_sum(tf.where(chosen, present, log_probabilities[..., 0]), axis=1)
        else:
            present = log_probabilities
            best = tf.argmax(present, axis=1)
            text, scores = (tf.gather(x, best, batch_dims=1) for x in (names, present))
        labels = tokens.with_flat_values(self.tokenizer.labels(tokens.flat_values)).to_tensor("")
        formatted = {
            "text": text,
            "scores": scores,
            "probabilities": tf.exp(present),
            "classes": names,
            "tokens": labels,
        }
        if "tokens" in outputs:
            weights = outputs["tokens"]
            if self._special_ids is not None:  # not the weights of the special tokens
                is_token = tf.sequence_mask(tokens.row_lengths(), tf.shape(labels)[1])
                weights = tf.where(is_token, weights[:, 1:-1], 0.0)
            formatted["attention"] = slice_to(weights, tf.shape(labels))
        if "sentences" in outputs:
            formatted["sentence_attention"] = slice_to(outputs["sentences"], tf.shape(labels)[:2])
        return formatted

    def _make_checks(self, ids: tf.RaggedTensor, truncated: tf.RaggedTensor) -> list[Check]:
        """Return the checks that `predict` makes of token ids before and after truncation."""
        checks = [check_empty(count_tokens(truncated))]
        if self._truncates:
            return checks
        checks.append(check_long(count_tokens(ids), self._limits.max_length))
        if self.splitter is not None:
            checks.append(check_long(ids.row_lengths(), self._limits.max_sentences, "sentences"))
        return checks


def count_tokens(ids: tf.RaggedTensor) -> tf.Tensor:
    """Return the number of tokens of each text `(B,)`, from ragged `(B, P)` or `(B, L, W)`."""
    lengths = ids.row_lengths(axis=1)
    return lengths if ids.ragged_rank == 1 else tf.reduce_sum(ids.row_lengths(axis=2), axis=1)


def split_long_sentences(documents: tf.RaggedTensor, size: int) -> tf.RaggedTensor:
    """Split the sentences of documents, ragged `(B, L, W)`, after each `size` tokens.

    Empty sentences are removed.
    """
    inner = documents.values
    positions = tf.ragged.range(inner.row_lengths()).flat_values
    is_first = positions % size == 0
    rows = tf.gather(documents.value_rowids(), inner.value_rowids())
    parts = tf.RaggedTensor.from_row_starts(inner.flat_values, tf.where(is_first)[:, 0])
    return tf.RaggedTensor.from_value_rowids(
        parts, tf.boolean_mask(rows, is_first), documents.nrows()
    )


def truncate_documents(
    documents: tf.RaggedTensor, max_sentences: int, max_length: int
) -> tf.RaggedTensor:
    """Truncate documents, ragged `(B, L, W)` without empty sentences.

    Args:
        documents: the documents.
        max_sentences: maximum number of sentences of a document.
        max_length: maximum number of tokens of a document.
    """
    documents = documents[:, :max_sentences]
    inner = documents.values
    starts = tf.cumsum(inner.row_lengths(), exclusive=True)
    starts -= tf.gather(
        tf.gather(inner.row_splits, documents.row_starts()), documents.value_rowids()
    )
    lengths = tf.clip_by_value(max_length - starts, 0, inner.row_lengths())
    positions = tf.ragged.range(inner.row_lengths())
    inner = tf.ragged.boolean_mask(inner, positions < lengths[:, None])
    is_kept = lengths > 0
    return tf.RaggedTensor.from_value_rowids(
        tf.ragged.boolean_mask(inner, is_kept),
        tf.boolean_mask(documents.value_rowids(), is_kept),
        documents.nrows(),
    )
