"""Decomposable attention (Parikh et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.weights_hooks import run_weights_hooks
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.matching.matcher import Matcher, TokenIds, align_texts
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.typing import Tensor

MAX_DISTANCE = 10
"""Largest distance with a bias of its own in the attention within a text."""


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class DecomposableAttention(Matcher):
    """Soft alignment of two texts, comparison of aligned tokens and a sum, without recurrence.

    `e_ij = F(a_i) . F(b_j)`, `beta_i = sum_j softmax_j(e_ij) b_j`,
    `alpha_j = sum_i softmax_i(e_ij) a_i`, `v_1 = sum_i G([a_i; beta_i])`,
    `v_2 = sum_j G([b_j; alpha_j])`, `logits = H([v_1; v_2]) W + c`; F, G and H have two layers with
    ReLU, `a_i = x_i P`. With `intra_attention` `a_i = [x_i P; sum_j softmax_j(f_ij) x_j P]`,
    `f_ij = F'(x_i P) . F'(x_j P) + d_{i-j}`

    Args:
        vocabulary_size: V, number of tokens; id 0 is padding, id 1 the unknown token.
        classes: names of the K classes; None for one output, a number or a ranking score.
        embedding_dim: width of the embeddings x, which both texts share.
        units: U, width of P, F, F', G and H.
        use_attention: if False, all weights between the texts are equal: beta_i is the mean of b.
            The model has the same weights otherwise, except F.
        intra_attention: whether each text attends to itself first. Distances above 10 share a bias
            d, one for each direction.
        dropout: dropout rate on the embeddings and before every layer of F, F', G and H.
        word_dropout: fraction of the tokens that the unknown token replaces in training.

    Call arguments:
        inputs: `{"first": (B, S), "second": (B, T)}`, token ids, integers; 0 is padding.
        training: enables both kinds of dropout.
        return_attention_scores: whether to return the alignment of the two texts too.

    Returns:
        Logits `(B, K)`, float32, `(B, 1)` without classes; if requested, also the weights
        `softmax_j(e_ij)` of each token of the first text over the second, `(B, S, T)`, None without
        attention.

    Masking:
        Padding (0) may be anywhere, does not affect the logits and has weight 0; distances count
        tokens only. The vector of an empty text, v_1 or v_2, is 0.

    Reference:
        Parikh et al. 2016, arXiv 1606.01933, sections 3.1 to 3.4: F' is F_intra, a_i with
        `intra_attention` is a-bar. There is no NULL token.
    """

    runs_weights_hooks = True

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        classes: Sequence[str] | None = None,
        embedding_dim: int = 300,
        units: int = 200,
        use_attention: bool = True,
        intra_attention: bool = False,
        dropout: float = 0.2,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(collect_arguments(locals()))
        options = {"units": units, "dropout": dropout, "dtype": self.dtype_policy}
        self.features = self.make_features()
        self.projection = layers.Dense(units, use_bias=False, dtype=self.dtype_policy)
        self.intra: Any = TwoLayerNetwork(**options) if intra_attention else None
        self.attend: Any = TwoLayerNetwork(**options) if use_attention else None
        self.compare_aligned, self.aggregate = (
            TwoLayerNetwork(**options),
            TwoLayerNetwork(**options),
        )
        self.build_head(units)

    def build_layers(self) -> None:
        units = self.settings["units"]
        width = 2 * units if self.intra is not None else units
        self.features.build()
        self.projection.build((None, None, self.settings["embedding_dim"]))
        if self.intra is not None:
            self.intra.build((None, None, units))
            shape = (2 * MAX_DISTANCE + 3,)
            self.distance_bias = self.add_weight(shape, "zeros", name="distance_bias")
        if self.attend is not None:
            self.attend.build((None, None, width))
        self.compare_aligned.build((None, None, 2 * width))
        self.aggregate.build((None, 2 * units))

    # computation

    def compare(
        self, first: TokenIds, second: TokenIds, training: bool, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        a, b = (self._represent(text, training) for text in (first, second))
        model = None if self.attend is None else self
        if self.attend is None:
            scores = ops.zeros_like(ops.matmul(a, ops.swapaxes(b, 1, 2)))
        else:
            scores = _compute_scores(*(self.attend(x, training=training) for x in (a, b)))
        beta, alpha, weights = align_texts(model, scores, a, b, first.mask, second.mask)
        v = [
            self._sum_comparisons(*aligned, training)
            for aligned in ((a, beta, first.mask), (b, alpha, second.mask))
        ]
        features = self.aggregate(ops.concatenate(v, axis=-1), training=training)
        return features, None if self.attend is None else weights

    def _represent(self, text: TokenIds, training: bool) -> Tensor:
        """Return the vectors of the tokens, `(B, S, U)`; `(B, S, 2 U)` with `intra_attention`."""
        x = self.projection(self.embed(text, training))
        if self.intra is None:
            return x
        hidden = self.intra(x, training=training)
        steps = ops.arange(ops.shape(x)[1], dtype="int32")
        distances = ops.clip(steps[:, None] - steps[None, :], -MAX_DISTANCE - 1, MAX_DISTANCE + 1)
        bias = ops.take(self.distance_bias, distances + (MAX_DISTANCE + 1))
        scores = _compute_scores(hidden, hidden)
        weights = zoo_ops.masked_softmax(scores + ops.cast(bias, scores.dtype), text.mask[:, None])
        context = ops.matmul(weights, ops.cast(x, weights.dtype))
        context = run_weights_hooks(self, weights, text.mask[:, None], context)
        return zoo_ops.zero_masked(
            ops.concatenate([x, ops.cast(context, x.dtype)], axis=-1), text.mask
        )

    def _sum_comparisons(self, x: Tensor, aligned: Tensor, mask: Tensor, training: bool) -> Tensor:
        """Return the sum over the tokens of G, `(B, U)`."""
        compared = self.compare_aligned(ops.concatenate([x, aligned], axis=-1), training=training)
        total = ops.sum(zoo_ops.at_least_float32(zoo_ops.zero_masked(compared, mask)), axis=1)
        return ops.cast(total, x.dtype)


class TwoLayerNetwork(layers.Layer):
    """Two dense layers with ReLU, with dropout before each."""

    def __init__(self, units: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        self.drop = Dropout(dropout, **common)
        self.inner, self.outer = (layers.Dense(units, "relu", **common) for _ in range(2))

    def build(self, inputs_shape: Any) -> None:
        self.inner.build(inputs_shape)
        self.outer.build((*inputs_shape[:-1], self.inner.units))
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        for layer in (self.inner, self.outer):
            inputs = layer(self.drop(inputs, training=training))
        return inputs


def _compute_scores(x: Tensor, y: Tensor) -> Tensor:
    """Return the inner products of all pairs of positions, `(B, S, T)`, in at least float32."""
    return ops.matmul(zoo_ops.at_least_float32(x), ops.swapaxes(zoo_ops.at_least_float32(y), 1, 2))


# config

add_presets(
    DecomposableAttention,
    # The sizes of Parikh et al. 2016, section 5.1 and table 1: without and with intra-sentence
    # attention.
    decomposable_attention=Config(embedding_dim=300, units=200, dropout=0.2),
    decomposable_attention_intra=Config(
        embedding_dim=300, units=200, intra_attention=True, dropout=0.2
    ),
    # Sizes for training on a CPU.
    decomposable_attention_small=Config(
        embedding_dim=100, units=100, intra_attention=True, dropout=0.2
    ),
)
