"""Transformer classifier, from scratch or around a pretrained BERT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.expected_lengths import expect_long_sequences
from attention_zoo.layers.attention.steps import is_long_sequence
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.classification.classifier import (
    PAD,
    Classifier,
    Weights,
    left_align,
    masked_mean,
)
from attention_zoo.models.language.bert import BERT, BERTBackboneMixin
from attention_zoo.models.presets import Config, collect_arguments, register_model
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

POOLINGS = ("first", "mean")


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class TransformerClassifier(BERTBackboneMixin, Classifier):
    """A BERT and a classifier of its first hidden state, or of the mean of all.

    `logits = drop(h_first) W + b`, or `drop(mean_t h_t) W + b`, where h are the hidden states; with
    `hidden_activation` f, `logits = drop(f(drop(h_first) U + c)) W + b`

    Args:
        bert: a `BERT`, pretrained or new, or its arguments, with `use_pooler=False` by default.
        classes: names of the K classes, in the order of the logits.
        multi_label: whether a text has any number of classes, not exactly one.
        pooling: "first" (the state of the first token, which is the class token if the texts begin
            with one; through the BERT's pooler, if it has one) or "mean" (over the tokens).
        dropout: dropout rate on the pooled vector and the hidden layer; the BERT has its own.
        window: maximum number of tokens of a window, at most the BERT's `max_length`; texts of any
            length are read in windows. Each has the first token of the text and up to `window - 1`
            of the others, without overlap. The vector of a text is the mean of those of its
            windows, weighted by their numbers of tokens. None: texts are not split.
        hidden_activation: activation f of a hidden layer of width D, such as "tanh" (RoBERTa) or
            "relu" (DistilBERT); None for no hidden layer.

    Call arguments:
        inputs: `{"tokens": (B, P)}`, integers, 0 is padding, P at most the BERT's `max_length`
            without `window`.
        training: enables dropout.
        return_attention_scores: whether to also return the attention weights.

    Returns:
        Logits `(B, K)`, float32; on request, also `{"tokens": (B, P)}`, the attention weights of
        the last layer: their mean over the heads, from the first token, or over all tokens with
        "mean". Those of a window are scaled by its part of the mean.

    Masking:
        Padding (0) may be anywhere, does not affect the logits and has weight 0.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 4.1: C is the pooled vector, W transposed.
        The mean is that of Reimers and Gurevych 2019, arXiv 1908.10084, section 3. Windows: Sun et
        al. 2019, arXiv 1905.05583, section 5.3.1, mean pooling; there, the mean is not weighted,
        and each window has an end token, here only the last one. The hidden layer is that of the
        classification heads of RoBERTa (Liu et al. 2019, arXiv 1907.11692) and DistilBERT (Sanh et
        al. 2019, arXiv 1910.01108) in `transformers`.
    """

    has_class_token = True
    head_options = ("pooling", "dropout", "window", "hidden_activation")
    own_arguments = (
        "classes",
        "multi_label",
        "pooling",
        "dropout",
        "window",
        "hidden_activation",
        "name",
        "dtype",
    )

    # layers

    def __init__(
        self,
        bert: BERT | Config,
        classes: Sequence[str],
        multi_label: bool = False,
        pooling: str = "first",
        dropout: float = 0.1,
        window: int | None = None,
        hidden_activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bert = bert = self.make_bert(bert)
        check_choice("pooling", pooling, POOLINGS)
        if window is not None:
            zoo_ops.whole_number("window", window, 2, bert.settings["max_length"])
        self.init_settings({**collect_arguments(locals()), "bert": dict(bert.settings)})
        self.drop = Dropout(dropout, dtype=self.dtype_policy)
        width = bert.settings["embedding_dim"]
        self.dense: Any = None
        if hidden_activation is not None:
            self.dense = layers.Dense(width, hidden_activation, dtype=self.dtype_policy)
            self.dense.build((None, width))
        self.build_head(width)

    # inputs

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self.bert.settings["vocabulary_size"])

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a text; None for no limit."""
        return None if self.settings["window"] else int(self.bert.settings["max_length"])

    @property
    def token_embedding(self) -> keras.layers.Embedding:
        """Embedding layer of the tokens, the BERT's."""
        return self.bert.token_embedding

    # computation

    def encode(
        self, tokens: Tensor, training: bool, return_attention_scores: bool
    ) -> tuple[Tensor, Weights]:
        tokens, mask, positions = left_align(tokens)
        if self.settings["window"] is None:
            vectors, weights = self._encode_rows(tokens, mask, training, return_attention_scores)
        else:
            vectors, weights = self._encode_windows(tokens, training, return_attention_scores)
        vectors = self.drop(vectors, training=training)
        if self.dense is not None:
            vectors = self.drop(self.dense(vectors), training=training)
        if weights is None:
            return vectors, {}
        return vectors, {"tokens": ops.take_along_axis(weights, positions, axis=1)}

    def _encode_rows(
        self, tokens: Tensor, mask: Tensor, training: bool, return_attention_scores: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the vectors `(B, D)` and weights `(B, P)` of tokens with padding at the end."""
        bert, options = self.bert, {"mask": mask, "training": training}
        x = bert.drop(bert.norm(bert.embed(tokens, mask)), training=training)
        *lower_layers, last_layer = bert.encoder
        for layer in lower_layers:
            x = layer(x, **options)
        x = last_layer(x, return_attention_scores=return_attention_scores, **options)
        x, weights = x if return_attention_scores else (x, None)
        hidden = zoo_ops.zero_masked(bert.final_norm(x), mask)
        is_mean = self.settings["pooling"] == "mean"
        if is_mean:
            vectors = masked_mean(hidden, mask)
        else:
            vectors = hidden[:, 0] if bert.pooler is None else bert.pool(hidden, mask)
        if weights is None:
            return vectors, None
        weights = ops.mean(weights, axis=1)  # over the heads, (B, P, P)
        return vectors, masked_mean(weights, mask) if is_mean else weights[:, 0]

    def _encode_windows(
        self, tokens: Tensor, training: bool, return_attention_scores: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the vectors `(B, D)` and weights `(B, P)` of texts of any length P."""
        window = self.settings["window"]
        windows = split_into_windows(tokens, window)
        batch, count, width = ops.shape(windows)
        rows = ops.reshape(windows, (batch * count, width))
        mask = ops.not_equal(rows, PAD)
        with expect_long_sequences(is_long_sequence(window)):  # the text may be longer
            vectors, weights = self._encode_rows(rows, mask, training, return_attention_scores)
        lengths = ops.sum(ops.cast(ops.not_equal(windows, PAD), "float32"), axis=2)
        parts = lengths / ops.maximum(ops.sum(lengths, axis=1, keepdims=True), 1.0)
        parts = parts[..., None]
        by_window = ops.reshape(
            zoo_ops.at_least_float32(vectors), (batch, count, vectors.shape[-1])
        )
        vectors = ops.cast(ops.sum(by_window * parts, axis=1), vectors.dtype)
        if weights is None:
            return vectors, None
        weights = ops.reshape(zoo_ops.at_least_float32(weights), (batch, count, width)) * parts
        first = ops.sum(weights[:, :, 0], axis=1, keepdims=True)
        others = ops.reshape(weights[:, :, 1:], (batch, count * (width - 1)))
        return vectors, ops.concatenate([first, others], axis=1)


def split_into_windows(tokens: Tensor, window: int) -> Tensor:
    """Return the windows of each text, `(B, N, W)`, each with the first token of the text.

    W is at most `window`. Windows after the end of a text are padding.

    Args:
        tokens: `(B, P)`, with padding at the end.
        window: maximum number of tokens of a window, the first token of the text included.
    """
    batch, length = ops.shape(tokens)
    if zoo_ops.is_symbolic(length):  # JAX; symbolic sizes cannot be compared
        num_others, width = length - 1, window - 1
    else:
        at_most, at_least = (ops.minimum, ops.maximum) if ops.is_tensor(length) else (min, max)
        num_others = at_least(length - 1, 1)
        width = at_most(window - 1, num_others)  # other tokens of a window
    count = (num_others + width - 1) // width
    padded = ops.pad(tokens[:, 1:], ((0, 0), (0, count * width - (length - 1))))
    others = ops.reshape(padded, (batch, count, width))
    is_used = ops.any(ops.not_equal(others, PAD), axis=2, keepdims=True)
    is_first = ops.reshape(ops.arange(count) == 0, (1, count, 1))
    first = ops.where(ops.logical_or(is_used, is_first), tokens[:, :1, None], PAD)
    return ops.concatenate([first, others], axis=2)
