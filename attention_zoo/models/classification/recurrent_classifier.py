"""BiLSTM or BiGRU classifier whose states are pooled by one of several methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import AttentionPooling, RecurrentEncoder, StructuredSelfAttention
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.classification.classifier import (
    Classifier,
    Weights,
    left_align,
    masked_mean,
)
from attention_zoo.models.presets import (
    Config,
    add_presets,
    check_kind_options,
    collect_arguments,
    register_model,
)
from attention_zoo.models.tagging.word_features import WordFeatures
from attention_zoo.registry import Registry
from attention_zoo.typing import Shape, Tensor

POOLINGS = Registry("pooling")
"""Registry of poolings, layers from states `(B, P, D)`, a final state `(B, D)` and a mask `(B, P)`
to a vector `(B, D')` and the weights `(B, P)`, or None."""
Pooled = tuple[Tensor, Tensor | None]


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class RecurrentClassifier(Classifier):
    """Bidirectional LSTM or GRU over the tokens, pooled to one vector, and a linear classifier.

    `h = BiRNN(drop(E[token]))`, `logits = drop(pool(h)) W + b`

    Args:
        vocabulary_size: V, number of tokens; id 0 is padding, id 1 the unknown token.
        classes: names of the K classes, in the order of the logits.
        multi_label: whether a text has any number of classes, not exactly one.
        embedding_dim: width of the embeddings E.
        units: D, output width of the encoder, half of it for each direction.
        cell: "lstm" or "gru".
        pooling: name or options of the pooling, with "kind": "last" (the final states of both
            directions), "mean", "max" (over the positions), "attention" (a learned query, see
            `layers.AttentionPooling`; options "score", "alignment", "units") or "structured" (see
            `layers.StructuredSelfAttention`; options "units", "hops", "penalty" and
            "hidden_units", the width of a ReLU layer on the concatenated hops).
        dropout: dropout rate on the embeddings and on the pooled vector.
        word_dropout: fraction of the tokens that the unknown token replaces in training.

    Call arguments:
        inputs: `{"tokens": (B, P)}`, integers, 0 is padding.
        training: enables both kinds of dropout.
        return_attention_scores: whether to also return the attention weights.

    Returns:
        Logits `(B, K)`, float32; on request, also `{"tokens": (B, P)}`, the attention weights
        (their mean over the hops of "structured"), or {} for a pooling without weights.

    Masking:
        Padding (0) may be anywhere, does not affect the logits and has weight 0. The vector of a
        text without tokens is 0.

    Reference:
        Lin et al. 2017, arXiv 1703.03130, sections 2.1 and 4.1 ("structured"; u is D / 2, d_a
        "units", r "hops"); learned query: Yang et al. 2016, ACL N16-1174, equations 5 to 7.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        classes: Sequence[str],
        multi_label: bool = False,
        embedding_dim: int = 100,
        units: int = 200,
        cell: str = "lstm",
        pooling: str | Config = "attention",
        dropout: float = 0.5,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(collect_arguments(locals()))
        self.settings["pooling"] = options = complete_pooling_options(pooling)
        common: Config = {"dtype": self.dtype_policy}
        features = {**self.settings, "characters": None, "marks": False}
        self.features = WordFeatures(features, dropout, **common)
        self.encoder = RecurrentEncoder(cell, units, bidirectional=True, **common)
        pooling_options = {name: x for name, x in options.items() if name != "kind"}
        self.pooling = POOLINGS.get(options["kind"])(**pooling_options, **common)
        self.drop = Dropout(dropout, **common)
        self.build_head(options.get("hidden_units", units))

    def build_layers(self) -> None:
        self.features.build()
        self.encoder.build((None, None, self.features.width))
        self.pooling.build((None, None, self.encoder.units))

    # computation

    def encode(
        self, tokens: Tensor, training: bool, return_attention_scores: bool
    ) -> tuple[Tensor, Weights]:
        tokens, mask, positions = left_align(tokens)
        x = self.features({"tokens": tokens}, training=training)
        x = zoo_ops.zero_masked(x, mask)
        # GPU kernels reject fully masked rows.
        memory, states = self.encoder(x, mask=zoo_ops.unmask_empty_rows(mask), training=training)
        memory = zoo_ops.zero_masked(memory, mask)
        vectors, weights = self.pooling(memory, states[0], mask)
        vectors = zoo_ops.zero_masked(vectors, ops.any(mask, axis=1))
        vectors = self.drop(vectors, training=training)
        if weights is None:
            return vectors, {}
        return vectors, {"tokens": ops.take_along_axis(weights, positions, axis=1)}


# poolings


class Pooling(layers.Layer):
    """Base class of poolings: states `(B, P, D)` to one vector for each text.

    Call arguments:
        memory: states of all positions, `(B, P, D)`; 0 at padding.
        final_state: final state of both directions, `(B, D)`.
        mask: `(B, P)`, True at tokens.

    Returns:
        A vector `(B, D')`, and the attention weights `(B, P)`, or None.
    """

    def build(self, memory_shape: Shape, *shapes: Shape) -> None:
        self.built = True


@POOLINGS.register("last")
class LastPooling(Pooling):
    """Final states of both directions."""

    def call(self, memory: Tensor, final_state: Tensor, mask: Tensor) -> Pooled:
        return final_state, None


@POOLINGS.register("mean")
class MeanPooling(Pooling):
    """Mean over the tokens."""

    def call(self, memory: Tensor, final_state: Tensor, mask: Tensor) -> Pooled:
        return masked_mean(memory, mask), None


@POOLINGS.register("max")
class MaxPooling(Pooling):
    """Maximum of each feature over the tokens."""

    def call(self, memory: Tensor, final_state: Tensor, mask: Tensor) -> Pooled:
        return zoo_ops.max_or_nan(ops.where(mask[..., None], memory, float("-inf")), axis=1), None


@POOLINGS.register("attention")
class QueryPooling(Pooling):
    """Weighted mean over the tokens, by attention with a learned query.

    Args:
        score, alignment, units: see `layers.AttentionPooling`.
    """

    def __init__(
        self,
        score: str = "additive",
        alignment: str = "softmax",
        units: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.attention = AttentionPooling(score, alignment, units, dtype=self.dtype_policy)

    def build(self, memory_shape: Shape, *shapes: Shape) -> None:
        self.attention.build(memory_shape)
        self.built = True

    def call(self, memory: Tensor, final_state: Tensor, mask: Tensor) -> Pooled:
        pooled: Pooled = self.attention(memory, mask=mask, return_attention_scores=True)
        return pooled


@POOLINGS.register("structured")
class StructuredPooling(Pooling):
    """ReLU layer on the concatenated hops of structured self-attention.

    Args:
        units, hops, penalty: see `layers.StructuredSelfAttention`.
        hidden_units: width of the ReLU layer.
    """

    def __init__(
        self,
        units: int = 350,
        hops: int = 30,
        penalty: float = 1.0,
        hidden_units: int = 3000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        common: Config = {"dtype": self.dtype_policy}
        self.attention = StructuredSelfAttention(units, hops, penalty, **common)
        self.hidden = layers.Dense(hidden_units, "relu", **common)

    def build(self, memory_shape: Shape, *shapes: Shape) -> None:
        self.attention.build(memory_shape)
        self.flat_width = self.attention.hops * memory_shape[-1]
        self.hidden.build((None, self.flat_width))
        self.built = True

    def call(self, memory: Tensor, final_state: Tensor, mask: Tensor) -> Pooled:
        hops, weights = self.attention(memory, mask=mask, return_attention_scores=True)
        flat = ops.reshape(hops, (ops.shape(hops)[0], self.flat_width))
        return self.hidden(flat), ops.mean(weights, axis=1)


# config


def complete_pooling_options(value: str | Config) -> Config:
    """Return the kind and the options with all defaults; raise ValueError for unknown ones."""
    value = {"kind": value} if isinstance(value, str) else value
    options, defaults = check_kind_options("pooling", value, "attention", POOLINGS.get)
    return {**defaults, **options}


add_presets(
    RecurrentClassifier,
    # The sizes of Lin et al. 2017, section 4.1 (Yelp); `units` counts both directions.
    structured_bilstm=Config(
        embedding_dim=100,
        units=600,
        cell="lstm",
        pooling={
            "kind": "structured",
            "units": 350,
            "hops": 30,
            "penalty": 1.0,
            "hidden_units": 3000,
        },
        dropout=0.5,
    ),
    # Sizes for training on a CPU, with the same mechanism.
    structured_bilstm_small=Config(
        embedding_dim=100,
        units=100,
        cell="lstm",
        pooling={
            "kind": "structured",
            "units": 50,
            "hops": 5,
            "penalty": 1.0,
            "hidden_units": 100,
        },
        dropout=0.3,
    ),
    # Sizes for training on a CPU; `pooling` is the option of comparisons.
    recurrent_classifier_small=Config(
        embedding_dim=100, units=100, cell="lstm", pooling={"kind": "attention"}, dropout=0.3
    ),
)
