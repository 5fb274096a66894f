"""Hierarchical attention network (Yang et al. 2016): attention over words and over sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import AttentionPooling, HierarchicalAttention, RecurrentEncoder
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.classification.classifier import PAD, Classifier, Weights, left_align
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.models.tagging.word_features import WordFeatures
from attention_zoo.typing import Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class HierarchicalAttentionNetwork(Classifier):
    """Classifier of documents: BiGRU and attention over words, then over sentences.

    `s_i = sum_t a_it h_it`, `a_it = softmax_t(u_w . tanh(W h_it + b))`, `h_it` from a BiGRU over
    `drop(E[token_it])`; likewise v from the `s_i`; `logits = drop(v) W' + b'`

    Args:
        vocabulary_size: V, number of tokens; id 0 is padding, id 1 the unknown token.
        classes: names of the K classes, in the order of the logits.
        multi_label: whether a document has any number of classes, not exactly one.
        embedding_dim: width of the embeddings E.
        units: width of h at both levels, half of it for each direction.
        attention_units: hidden units of the attention scores at both levels.
        dropout: dropout rate on the embeddings and on v.
        word_dropout: fraction of the tokens that the unknown token replaces in training.

    Call arguments:
        inputs: `{"tokens": (B, L, W)}`, the W words of each of L sentences, integers, 0 is padding.
        training: enables both kinds of dropout.
        return_attention_scores: whether to also return the attention weights.

    Returns:
        Logits `(B, K)`, float32; on request, also `{"tokens": (B, L, W), "sentences": (B, L)}`, the
        attention weights of the words in each sentence, and of the sentences.

    Masking:
        Padding (0) and empty sentences may be anywhere, do not affect the logits and have weight 0.
        The vector of a document without tokens is 0.

    Reference:
        Yang et al. 2016, ACL N16-1174, section 2.2, equations 1 to 10: d is the document vector v,
        alpha_it and alpha_i are the weights. Dropout is this library's addition.
    """

    has_sentences = True

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        classes: Sequence[str],
        multi_label: bool = False,
        embedding_dim: int = 200,
        units: int = 100,
        attention_units: int = 100,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(collect_arguments(locals()))
        common: Config = {"dtype": self.dtype_policy}
        features = {**self.settings, "characters": None, "marks": False}
        self.features = WordFeatures(features, dropout, **common)
        levels = [
            (
                RecurrentEncoder("gru", units, bidirectional=True, **common),
                AttentionPooling(units=attention_units, **common),
            )
            for _ in ("words", "sentences")
        ]
        self.attention = HierarchicalAttention(levels, **common)
        self.drop = Dropout(dropout, **common)
        self.build_head(units)

    def build_layers(self) -> None:
        self.features.build()
        self.attention.build((None, None, None, self.features.width))

    # computation

    def encode(
        self, tokens: Tensor, training: bool, return_attention_scores: bool
    ) -> tuple[Tensor, Weights]:
        batch, num_sentences, num_words = ops.shape(tokens)
        rows = ops.reshape(tokens, (batch * num_sentences, num_words))
        rows, row_mask, word_positions = left_align(rows)
        aligned_shape = (batch, num_sentences, ops.shape(rows)[1])
        # empty sentences move to the end
        order = zoo_ops.to_front(ops.reshape(ops.any(row_mask, axis=1), (batch, num_sentences)))
        aligned = ops.reshape(rows, aligned_shape)
        aligned = ops.take_along_axis(aligned, order[..., None], axis=1)
        vectors, (word_weights, sentence_weights) = self.attention(
            self.features({"tokens": aligned}, training=training),
            mask=ops.not_equal(aligned, PAD),
            return_attention_scores=True,
            training=training,
        )
        vectors = self.drop(vectors, training=training)
        if not return_attention_scores:
            return vectors, {}
        positions = ops.argsort(order, axis=1)
        word_weights = ops.take_along_axis(word_weights, positions[..., None], axis=1)
        word_weights = ops.reshape(word_weights, ops.shape(rows))
        word_weights = ops.take_along_axis(word_weights, word_positions, axis=1)
        return vectors, {
            "tokens": ops.reshape(word_weights, (batch, num_sentences, num_words)),
            "sentences": ops.take_along_axis(sentence_weights, positions, axis=1),
        }


# config

add_presets(
    HierarchicalAttentionNetwork,
    # The sizes of Yang et al. 2016, section 3.3; `units` counts both directions.
    han=Config(embedding_dim=200, units=100, attention_units=100, dropout=0.0),
    # Sizes for training on a CPU.
    han_small=Config(embedding_dim=100, units=60, attention_units=60, dropout=0.3),
)
