"""Convolutional classifier (Kim 2014), with pooling by the maximum or by attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import AttentionPooling, RecurrentEncoder
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.classification.classifier import Classifier, Weights, left_align
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.models.tagging.word_features import WordFeatures
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

POOLINGS = ("max", "attention", "lstm_attention")


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class ConvolutionalClassifier(Classifier):
    """Convolutions of several widths over the tokens, each pooled, and a linear classifier.

    `c^h_i = relu(W_h [x_i; ...; x_{i+h-1}] + b_h)`, `x = E[token]`,
    `logits = drop([pool_i(c^3_i); pool_i(c^4_i); ...]) W + b`

    Args:
        vocabulary_size: V, number of tokens; id 0 is padding, id 1 the unknown token.
        classes: names of the K classes, in the order of the logits.
        multi_label: whether a text has any number of classes, not exactly one.
        embedding_dim: width of the embeddings E.
        kernel_sizes: h of each convolution, numbers of tokens.
        filters: F, number of feature maps of each convolution.
        pooling: "max" (of each feature map over the windows), "attention" (weighted mean over the
            windows, with a learned query for each width) or "lstm_attention" (the query is the
            final state, of width F, of an LSTM over the tokens).
        dropout: dropout rate on the pooled vector.
        word_dropout: fraction of the tokens that the unknown token replaces in training.
        max_norm: maximum Euclidean norm of the weights W of each class; longer ones are rescaled
            after every update.

    Call arguments:
        inputs: `{"tokens": (B, P)}`, integers, 0 is padding.
        training: enables both kinds of dropout.
        return_attention_scores: whether to also return the attention weights.

    Returns:
        Logits `(B, K)`, float32; on request, also `{"tokens": (B, P)}`, the mean over the widths of
        the attention weights, where each window's weight is divided evenly among its tokens; {}
        for "max".

    Masking:
        Padding (0) may be anywhere, does not affect the logits and has weight 0. The convolutions
        are wide: windows may extend beyond an end of the text, with zeros there, so that the first
        and the last tokens have features of their own. The vector of a text without tokens is 0.

    Reference:
        Kim 2014, arXiv 1408.5882, sections 2 and 3.1, CNN-rand: k is `embedding_dim`, s is
        `max_norm`. The paper chooses "max"; attention in its place is this library's addition. The
        paper pads "where necessary"; the author's code adds 4 zeros for all widths, here h - 1.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        classes: Sequence[str],
        multi_label: bool = False,
        embedding_dim: int = 300,
        kernel_sizes: Sequence[int] = (3, 4, 5),
        filters: int = 100,
        pooling: str = "max",
        dropout: float = 0.5,
        word_dropout: float = 0.0,
        max_norm: float = 3.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(collect_arguments(locals()))
        check_choice("pooling", pooling, POOLINGS)
        self.kernel_sizes = _check_sizes(kernel_sizes)
        zoo_ops.finite_number("max_norm", max_norm, above=0)
        common: Config = {"dtype": self.dtype_policy}
        self.features = WordFeatures(
            {**self.settings, "characters": None, "marks": False}, **common
        )
        self.convolutions = [
            layers.Conv1D(filters, width, activation="relu", **common)
            for width in self.kernel_sizes
        ]
        self.poolings = [AttentionPooling(**common) for _ in self.kernel_sizes if pooling != "max"]
        self.query_encoder: Any = None
        if pooling == "lstm_attention":
            self.query_encoder = RecurrentEncoder("lstm", filters, **common)
        self.drop = Dropout(dropout, **common)
        self.build_head(
            filters * len(self.kernel_sizes), keras.constraints.MaxNorm(max_norm, axis=0)
        )

    def build_layers(self) -> None:
        self.features.build()
        filters = self.settings["filters"]
        for convolution in self.convolutions:
            convolution.build((None, None, self.features.width))
        query_shape = None
        if self.query_encoder is not None:
            self.query_encoder.build((None, None, self.features.width))
            query_shape = (None, filters)
        for pooling in self.poolings:
            pooling.build((None, None, filters), query_shape)

    # computation

    def encode(
        self, tokens: Tensor, training: bool, return_attention_scores: bool
    ) -> tuple[Tensor, Weights]:
        tokens, mask, positions = left_align(tokens)
        x = zoo_ops.zero_masked(self.features({"tokens": tokens}, training=training), mask)
        query = None
        if self.query_encoder is not None:
            # GPU kernels reject fully masked rows.
            encoder_mask = zoo_ops.unmask_empty_rows(mask)
            query = self.query_encoder(x, mask=encoder_mask, training=training)[1][0]
        padded, batch = zoo_ops.pad_empty_batch(x), ops.shape(x)[0]
        pooled, weights = [], []
        for number, width in enumerate(self.kernel_sizes):
            num_zeros = width - 1  # on each side
            # P + width - 1 windows, of which those without tokens are masked
            maps = self.convolutions[number](
                ops.pad(padded, ((0, 0), (num_zeros, num_zeros), (0, 0)))
            )[:batch]
            window_mask = zoo_ops.widen_mask(mask, width)
            if not self.poolings:
                maps = ops.where(window_mask[..., None], maps, float("-inf"))
                pooled.append(zoo_ops.max_or_nan(maps, axis=1))
                continue
            vectors, window_weights = self.poolings[number](
                maps, query, mask=window_mask, return_attention_scores=True
            )
            pooled.append(vectors)
            weights.append(divide_among_tokens(window_weights, mask, width))
        vectors = zoo_ops.zero_masked(ops.concatenate(pooled, axis=-1), ops.any(mask, axis=1))
        vectors = self.drop(vectors, training=training)
        if not weights:
            return vectors, {}
        mean = sum(weights) / len(weights)
        return vectors, {"tokens": ops.take_along_axis(mean, positions, axis=1)}


def divide_among_tokens(weights: Tensor, mask: Tensor, width: int) -> Tensor:
    """Return the weights of tokens, `(B, P)`: each window's weight, divided among its tokens.

    Args:
        weights: `(B, P + width - 1)`, of the windows of a wide convolution; 0 for masked ones.
        mask: `(B, P)`, True at tokens; padding is at the end.
        width: number of positions of a window.
    """
    num_zeros = width - 1
    padded_mask = ops.pad(ops.cast(mask, weights.dtype), ((0, 0), (num_zeros, num_zeros)))
    counts = zoo_ops.sum_windows(padded_mask, width)
    shares = weights / ops.maximum(counts, 1)
    return ops.where(mask, zoo_ops.sum_windows(shares, width), 0.0)


# config


def _check_sizes(sizes: Any) -> list[int]:
    """Return the sizes; raise ValueError unless they are a list of integers of at least 1."""
    if not isinstance(sizes, list | tuple) or not sizes:
        raise ValueError(f"kernel_sizes must be a list of at least one size, got {sizes!r}")
    return [zoo_ops.whole_number("kernel_sizes", size) for size in sizes]


add_presets(
    ConvolutionalClassifier,
    # The sizes of Kim 2014, section 3.1; widths 3, 4 and 5.
    kim_cnn=Config(embedding_dim=300, filters=100, pooling="max", dropout=0.5, max_norm=3.0),
    # Sizes for training on a CPU.
    kim_cnn_small=Config(embedding_dim=100, filters=50, pooling="max", dropout=0.5, max_norm=3.0),
)
