"""Convolutional models of text pairs, with and without attention (Yin et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import AttentionFeatureMap, AttentionWeightedPooling
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.classification.classifier import masked_mean
from attention_zoo.models.matching.matcher import Matcher, TokenIds
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

ATTENTION = ("none", "input", "pooling", "both")


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class BCNN(Matcher):
    """Convolutions over both texts with shared weights, with attention as ABCNN-1, 2 or 3.

    In each block `c_k = tanh([x_{k-w+1}; ...; x_k] F + f)`, k from 1 to S + w - 1, x = 0 outside
    the text; `p_i = mean_{k = i .. i+w-1} a_k c_k`; `v = mean_i p_i`. The next block takes p as x.
    `logits = [v; v'; |v - v'|; v * v'; cos(v, v')] W + b`, with these features of all blocks

    y, c' and v' are those of the other text: with "pooling" `a_k = sum_l 1 / (1 + ||c_k - c'_l||)`,
    otherwise 1; with "input" x_i is first extended to `[x_i; sum_j A_ij U_j]`,
    `A_ij = 1 / (1 + ||x_i - y_j||)`.

    Args:
        vocabulary_size: V, number of tokens; id 0 is padding, id 1 the unknown token.
        classes: names of the K classes; None for one output, a number or a ranking score.
        embedding_dim: width of the embeddings, the x and y of the first block.
        filters: number of filters of every convolution.
        kernel_size: w, number of tokens in a window.
        num_blocks: number of blocks.
        attention: "none" (BCNN), "input" (ABCNN-1), "pooling" (ABCNN-2) or "both" (ABCNN-3).
        max_length: maximum length of each text, padding included, with "input" and "both", whose U
            and U' have a row for each position; otherwise without effect.
        dropout: dropout rate on the embeddings and on f.
        word_dropout: fraction of the tokens that the unknown token replaces in training.

    Call arguments:
        inputs: `{"first": (B, S), "second": (B, T)}`, token ids, integers; 0 is padding.
        training: enables both kinds of dropout.
        return_attention_scores: whether to return the alignment of the two texts too.

    Returns:
        Logits `(B, K)`, float32, `(B, 1)` without classes; if requested, also the matrix A of the
        first block, `(B, S, T)`, in (0, 1]: A_ij with "input" and "both"; with "pooling" the mean
        of `1 / (1 + ||c_k - c'_l||)` over k = i .. i+w-1 and l = j .. j+w-1; None with "none".
        Rows do not sum to 1.

    Masking:
        Padding (0) may be anywhere, does not affect the logits and has weight 0: only windows
        that contain a token count. The vectors v of an empty text are 0.

    Reference:
        Yin et al. 2015, arXiv 1512.05193, sections 3 (wide convolution, w-ap, all-ap of every
        block to the output layer) and 4: F_r is x, F_a the map of U, W_0 is U. w-ap with attention
        is a sum there, a mean here; all-ap averages the outputs of w-ap. The differences and
        products in f are this library's addition.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        classes: Sequence[str] | None = None,
        embedding_dim: int = 300,
        filters: int = 50,
        kernel_size: int = 4,
        num_blocks: int = 1,
        attention: str = "none",
        max_length: int = 64,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("attention", attention, ATTENTION)
        self.init_settings(collect_arguments(locals()))
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        blocks = range(num_blocks)
        self.features = self.make_features()
        self.convolutions = [layers.Dense(filters, "tanh", **common) for _ in blocks]
        self.maps: Any = [None for _ in blocks]
        if attention in ("input", "both"):
            self.maps = [AttentionFeatureMap(max_length, **common) for _ in blocks]
        self.pooling: Any = None
        if attention in ("pooling", "both"):
            self.pooling = AttentionWeightedPooling(kernel_size, **common)
        self.drop = Dropout(dropout, **common)
        self.build_head(num_blocks * (4 * filters + 1))

    def build_layers(self) -> None:
        self.features.build()
        units, width = self.settings["filters"], self.settings["embedding_dim"]
        for filters, feature_map in zip(self.convolutions, self.maps, strict=True):
            if feature_map is not None:
                feature_map.build((None, None, width), (None, None, width))
                width = 2 * width
            filters.build((None, None, self.settings["kernel_size"] * width))
            width = units
        if self.pooling is not None:
            self.pooling.build((None, None, units), (None, None, units))

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of each text; None for no limit."""
        return None if self.maps[0] is None else int(self.settings["max_length"])

    # computation

    def compare(
        self, first: TokenIds, second: TokenIds, training: bool, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        masks = first.mask, second.mask
        texts = self.embed(first, training), self.embed(second, training)
        features, weights = [], []
        for filters, feature_map in zip(self.convolutions, self.maps, strict=True):
            if feature_map is not None:
                *maps, scores = feature_map(*texts, *masks, return_attention_scores=True)
                texts = tuple(
                    ops.concatenate(pair, axis=-1) for pair in zip(texts, maps, strict=True)
                )
                weights.append(scores)
            convolved = [self._convolve(filters, x) for x in texts]
            texts, scores = self._pool(convolved, masks)
            weights.append(scores)
            features += _compare_vectors(*(masked_mean(*x) for x in zip(texts, masks, strict=True)))
        return self.drop(ops.concatenate(features, axis=-1), training=training), weights[0]

    def _convolve(self, filters: Any, x: Tensor) -> Tensor:
        """Apply a wide convolution to `x (B, S, D)`, 0 at padding; return `(B, S + w - 1, U)`."""
        width = self.settings["kernel_size"]
        # `sliding_windows` adds the other zeros, so that w - 1 are on each side.
        padded = ops.pad(x, ((0, 0), (width // 2, (width - 1) // 2), (0, 0)))
        return filters(zoo_ops.sliding_windows(padded, width))

    def _pool(
        self, convolved: list[Tensor], masks: tuple[Tensor, Tensor]
    ) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """Pool `(B, S + w - 1, U)` of both texts to `(B, S, U)`; return A `(B, S, T)` too."""
        width = self.settings["kernel_size"]
        if self.pooling is None:
            averages = [zoo_ops.sum_windows(x, width) / width for x in convolved]
            return tuple(map(zoo_ops.zero_masked, averages, masks)), None
        wide_masks = [zoo_ops.widen_mask(mask, width) for mask in masks]
        *pooled, scores = self.pooling(*convolved, *wide_masks, return_attention_scores=True)
        scores = ops.swapaxes(zoo_ops.sum_windows(scores, width) / width, 1, 2)
        scores = ops.swapaxes(zoo_ops.sum_windows(scores, width) / width, 1, 2)
        return tuple(x / width for x in pooled), scores


def _compare_vectors(x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the features of two vectors `(B, D)`; the cosine with a vector of 0 is 0."""
    x, y = map(zoo_ops.at_least_float32, (x, y))
    product = x * y
    squares = ops.sum(x * x, axis=-1, keepdims=True) * ops.sum(y * y, axis=-1, keepdims=True)
    norm = ops.sqrt(ops.maximum(squares, 1e-12))
    return [x, y, ops.abs(x - y), product, ops.sum(product, axis=-1, keepdims=True) / norm]


# config

BLOCK = Config(embedding_dim=300, filters=50, kernel_size=4)
"""Sizes of the authors' scripts for answer selection; the table of the paper has others."""

add_presets(
    BCNN,
    # The systems of Yin et al. 2015, tables 3 to 5: "one-conv" and "two-conv".
    bcnn=BLOCK,
    bcnn_two=Config(**BLOCK, num_blocks=2),
    abcnn1=Config(**BLOCK, attention="input"),
    abcnn1_two=Config(**BLOCK, num_blocks=2, attention="input"),
    abcnn2=Config(**BLOCK, attention="pooling"),
    abcnn2_two=Config(**BLOCK, num_blocks=2, attention="pooling"),
    abcnn3=Config(**BLOCK, attention="both"),
    abcnn3_two=Config(**BLOCK, num_blocks=2, attention="both"),
    # Sizes for training on a CPU.
    abcnn_small=Config(embedding_dim=100, filters=50, kernel_size=3, attention="both", dropout=0.2),
)
