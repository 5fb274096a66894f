"""Transformer classifier, from scratch or around a pretrained BERT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.classification.classifier import (
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
    """A BERT and a linear classifier of its first hidden state, or of the mean of all.

    `logits = drop(h_first) W + b`, or `drop(mean_t h_t) W + b`, where h are the hidden states

    Args:
        bert: a `BERT`, pretrained or new, or its arguments, with `use_pooler=False` by default.
        classes: names of the K classes, in the order of the logits.
        multi_label: whether a text has any number of classes, not exactly one.
        pooling: "first" (the state of the first token, which is the class token if the texts begin
            with one; through the BERT's pooler, if it has one) or "mean" (over the tokens).
        dropout: dropout rate on the pooled vector; the BERT has its own.

    Call arguments:
        inputs: `{"tokens": (B, P)}`, integers, 0 is padding, P at most the BERT's `max_length`.
        training: enables dropout.
        return_attention_scores: whether to also return the attention weights.

    Returns:
        Logits `(B, K)`, float32; on request, also `{"tokens": (B, P)}`, the attention weights of
        the last layer: their mean over the heads, from the first token, or over all tokens with
        "mean".

    Masking:
        Padding (0) may be anywhere, does not affect the logits and has weight 0.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 4.1: C is the pooled vector, W transposed.
        The mean is that of Reimers and Gurevych 2019, arXiv 1908.10084, section 3.
    """

    has_class_token = True
    head_options = ("pooling", "dropout")
    own_arguments = (
        "classes",
        "multi_label",
        "pooling",
        "dropout",
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bert = bert = self.make_bert(bert)
        check_choice("pooling", pooling, POOLINGS)
        self.init_settings({**collect_arguments(locals()), "bert": dict(bert.settings)})
        self.drop = Dropout(dropout, dtype=self.dtype_policy)
        self.build_head(bert.settings["embedding_dim"])

    # inputs

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self.bert.settings["vocabulary_size"])

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text."""
        return int(self.bert.settings["max_length"])

    @property
    def token_embedding(self) -> keras.layers.Embedding:
        """Embedding layer of the tokens, the BERT's."""
        return self.bert.token_embedding

    # computation

    def encode(
        self, tokens: Tensor, training: bool, return_attention_scores: bool
    ) -> tuple[Tensor, Weights]:
        tokens, mask, positions = left_align(tokens)
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
        vectors = self.drop(vectors, training=training)
        if weights is None:
            return vectors, {}
        weights = ops.mean(weights, axis=1)  # over the heads, (B, P, P)
        token_weights = masked_mean(weights, mask) if is_mean else weights[:, 0]
        return vectors, {"tokens": ops.take_along_axis(token_weights, positions, axis=1)}
