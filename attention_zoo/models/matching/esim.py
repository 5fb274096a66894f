"""Sequential inference model with soft alignment (Chen et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import RecurrentEncoder
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.classification.classifier import masked_mean
from attention_zoo.models.matching.matcher import Matcher, TokenIds, align_texts
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.typing import Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class ESIM(Matcher):
    """Two BiLSTMs around a soft alignment of the texts (ESIM, the sequential model).

    `a = BiLSTM(x)`, `b = BiLSTM(y)`, `e_ij = a_i . b_j`, `a~_i = sum_j softmax_j(e_ij) b_j`,
    `b~_j = sum_i softmax_i(e_ij) a_i`, `m_a = relu([a; a~; a - a~; a * a~] F + f)`,
    `v_a = BiLSTM(m_a)`, `logits = tanh([mean(v_a); max(v_a); mean(v_b); max(v_b)] G + g) W + c`

    Args:
        vocabulary_size: V, number of tokens; id 0 is padding, id 1 the unknown token.
        classes: names of the K classes; None for one output, a number or a ranking score.
        embedding_dim: width of the embeddings x and y, which both texts share.
        units: D, output width of both BiLSTMs, half of it for each direction. F and G have D / 2
            outputs.
        use_attention: if False, all weights of a text are equal: a~_i is the mean of b, with the
            same number of weights in the model.
        dropout: dropout rate on the embeddings, and before F, the second BiLSTM, G and W.
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
        Padding (0) may be anywhere, does not affect the logits and has weight 0. Vectors that
        depend on an empty text are finite.

    Reference:
        Chen et al. 2017, arXiv 1609.06038, sections 3.1 to 3.3 (the sequential model): a and b are
        a-bar and b-bar, F is the projection of section 3.3. Both texts share all weights.
    """

    runs_weights_hooks = True

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        classes: Sequence[str] | None = None,
        embedding_dim: int = 300,
        units: int = 600,
        use_attention: bool = True,
        dropout: float = 0.5,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(collect_arguments(locals()))
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        self.features = self.make_features()
        self.encoder = RecurrentEncoder("lstm", units, bidirectional=True, **common)
        self.projection = layers.Dense(units // 2, "relu", **common)
        self.composition = RecurrentEncoder("lstm", units, bidirectional=True, **common)
        self.hidden = layers.Dense(units // 2, "tanh", **common)
        self.drop = Dropout(dropout, **common)
        self.build_head(units // 2)

    def build_layers(self) -> None:
        units = self.settings["units"]
        self.features.build()
        self.encoder.build((None, None, self.settings["embedding_dim"]))
        self.projection.build((None, None, 4 * units))
        self.composition.build((None, None, units // 2))
        self.hidden.build((None, 4 * units))

    # computation

    def compare(
        self, first: TokenIds, second: TokenIds, training: bool, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        masks = first.mask, second.mask
        embedded = [self.embed(text, training) for text in (first, second)]
        a, b = _run_both(self.encoder, embedded, masks, training)
        scores = ops.matmul(a, ops.swapaxes(b, 1, 2))  # (B, S, T)
        model = self if self.settings["use_attention"] else None
        if model is None:
            scores = ops.zeros_like(scores)
        *aligned, weights = align_texts(model, scores, a, b, *masks)
        compared = [
            self._compare_aligned(*pair, training) for pair in zip((a, b), aligned, strict=True)
        ]
        composed = _run_both(self.composition, compared, masks, training)
        pooled = [_pool(*pair) for pair in zip(composed, masks, strict=True)]
        features = self.drop(ops.concatenate(pooled, axis=-1), training=training)
        features = self.drop(self.hidden(features), training=training)
        return features, weights if self.settings["use_attention"] else None

    def _compare_aligned(self, states: Tensor, aligned: Tensor, training: bool) -> Tensor:
        """Return the inputs of the second BiLSTM, `(B, S, D / 2)`."""
        pairs = [states, aligned, states - aligned, states * aligned]
        compared = self.projection(self.drop(ops.concatenate(pairs, axis=-1), training=training))
        return self.drop(compared, training=training)


def _run_both(
    encoder: Any, texts: Sequence[Tensor], masks: Sequence[Tensor], training: bool
) -> tuple[Tensor, Tensor]:
    """Run an encoder over both texts in one batch, which takes half as many sequential steps.

    Args:
        encoder: a `RecurrentEncoder`.
        texts: `(B, S, E)` and `(B, T, E)`.
        masks: `(B, S)` and `(B, T)`, True at tokens.

    Returns:
        The states, `(B, S, D)` and `(B, T, D)`, 0 at padding.
    """
    num_first, num_second = (ops.shape(x)[1] for x in texts)
    x, mask = (
        ops.concatenate([_extend(first, second), _extend(second, first)], axis=0)
        for first, second in (texts, masks)
    )
    states, _ = encoder(x, mask=zoo_ops.unmask_empty_rows(mask), training=training)
    first, second = ops.split(states, 2, axis=0)
    return (
        zoo_ops.zero_masked(first[:, :num_first], masks[0]),
        zoo_ops.zero_masked(second[:, :num_second], masks[1]),
    )


def _extend(x: Tensor, other: Tensor) -> Tensor:
    """Extend `x (B, S, ...)` by zeros to the length of `other`, if that is longer."""
    return ops.concatenate([x, ops.zeros_like(other[:, ops.shape(x)[1] :])], axis=1)


def _pool(states: Tensor, mask: Tensor) -> Tensor:
    """Return mean and maximum over the tokens, `(B, 2 D)`; 0 for an empty text."""
    best = zoo_ops.max_or_nan(zoo_ops.mask_scores(states, mask[..., None], axis=1), 1)
    best = zoo_ops.zero_masked(best, ops.any(mask, axis=1))
    return ops.concatenate([masked_mean(states, mask), best], axis=-1)


# config

add_presets(
    ESIM,
    # The sizes of Chen et al. 2017, section 4, "training"; `units` counts both directions.
    esim=Config(embedding_dim=300, units=600, dropout=0.5),
    # Sizes for training on a CPU.
    esim_small=Config(embedding_dim=100, units=200, dropout=0.3),
)
