"""BERT: a bidirectional Transformer encoder (Devlin et al. 2018)."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import (
    POSITIONS,
    LearnedPositions,
    MultiHeadAttention,
    TransformerEncoderLayer,
)
from attention_zoo.layers.positions.absolute import compute_positions
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.layers.transformer.encoder_layer import check_layer_options
from attention_zoo.layers.transformer.residual import NORMS, make_final_norm
from attention_zoo.models.positional_encoding import (
    LEARNED,
    check_positions,
    make_relative_positions,
    run_left_aligned,
)
from attention_zoo.models.presets import Config, PresetMixin, model, preset
from attention_zoo.typing import Tensor

PAD = 0


@model
@keras.saving.register_keras_serializable("attention_zoo")
class BERT(PresetMixin, keras.Model):
    """Embeddings of tokens, positions and segments, and a stack of self-attention layers.

    `x_t = drop(norm(E[token_t] + p_t + G[segment_t]))`, `h = layers(x)`,
    `pooled = tanh(h_first W + b)`

    Args:
        vocabulary_size: V, all tokens; 0 is padding.
        embedding_dim: D, width of the embeddings and of all layers.
        units: F, width of the feed-forward networks.
        num_heads: H; D / H is the width of a head.
        num_layers: N.
        max_length: L, maximum sequence length.
        num_segments: number of segments.
        layer: arguments of `layers.TransformerEncoderLayer` for every layer: any of "activation",
            "norm", "norm_first" (False: post-norm as in the paper; True, the default: pre-norm,
            with a norm after the last layer), "epsilon" and "stochastic_depth". The embeddings use
            the same kind of norm. "gelu" is the exact one (erf), as in the released models. Also
            "positions": "learned" (p_t is P[position_t], as in the paper), a name of
            `layers.POSITIONS` ("rotary", "alibi", "t5", "shaw": relative positions in the
            self-attention; p is 0), or "none".
        dropout: dropout rate on embeddings, attention weights and sublayers.
        use_pooler: whether to compute the pooled output; models trained on tokens alone have none.

    Call arguments:
        inputs: `{"tokens": (B, T)}` and optionally `"segments": (B, T)` (default 0), integers. T is
            at most L.
        training: enables dropout.

    Returns:
        `{"hidden": (B, T, D), "pooled": (B, D)}`; pooled, with `use_pooler`, is computed from the
        first token.

    Masking:
        Padding (0) does not affect other positions, at any depth and wherever it is: position
        indices count tokens only. `hidden` is 0 at padding; `pooled` is 0 for rows without tokens.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 3: L is N, H is D, A is H. The released model
        includes padding in its position indices; with right padding, as used, both agree.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 768,
        units: int = 3072,
        num_heads: int = 12,
        num_layers: int = 12,
        max_length: int = 512,
        num_segments: int = 2,
        layer: Config | None = None,
        dropout: float = 0.1,
        use_pooler: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        layer = dict(layer or {})
        self.settings: dict[str, Any] = {
            "vocabulary_size": vocabulary_size,
            "embedding_dim": embedding_dim,
            "units": units,
            "num_heads": num_heads,
            "num_layers": num_layers,
            "max_length": max_length,
            "num_segments": num_segments,
            "layer": dict(layer),
            "dropout": dropout,
            "use_pooler": use_pooler,
        }
        self._check_settings()
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        self.token_embedding, self.segment_embedding = (
            layers.Embedding(size, embedding_dim, _make_initializer(), **common)
            for size in (vocabulary_size, num_segments)
        )
        positions = layer.pop("positions", LEARNED)
        has_absolute_positions = positions == LEARNED
        self.positions: Any = (
            LearnedPositions(max_length, **common) if has_absolute_positions else None
        )
        self.has_relative_positions = positions in POSITIONS
        self.norm = NORMS.get(layer.get("norm", "layer"))(
            epsilon=layer.get("epsilon", 1e-6), **common
        )
        self.drop = Dropout(dropout, **common)
        key_dim = embedding_dim // num_heads
        self.encoder = [
            TransformerEncoderLayer(
                units,
                num_heads,
                MultiHeadAttention(
                    num_heads,
                    key_dim,
                    dropout=dropout,
                    positions=make_relative_positions(positions, **common),
                    **common,
                ),
                **{"dropout": dropout, **layer, **common},
            )
            for _ in range(num_layers)
        ]
        self.final_norm = make_final_norm(**layer, **common)
        self.pooler: Any = layers.Dense(embedding_dim, "tanh", **common) if use_pooler else None
        self.build()

    def _check_settings(self) -> None:
        """Raise ValueError for invalid settings."""
        settings = self.settings
        for name in ("vocabulary_size", "embedding_dim", "units", "num_heads", "num_layers"):
            zoo_ops.whole_number(name, settings[name])
        for name in ("max_length", "num_segments"):
            zoo_ops.whole_number(name, settings[name])
        check_layer_options(settings["layer"], extra=("positions",))
        check_positions(
            settings["layer"].get("positions", LEARNED),
            (LEARNED,),
        )
        if settings["embedding_dim"] % settings["num_heads"]:
            raise ValueError(
                f"num_heads must divide embedding_dim, got num_heads={settings['num_heads']}, "
                f"embedding_dim={settings['embedding_dim']}"
            )

    def build(self, input_shape: Any = None) -> None:
        width = self.settings["embedding_dim"]
        for embedding in (self.token_embedding, self.segment_embedding):
            embedding.build(None)
        for layer in (self.positions, self.norm, *self.encoder, self.final_norm):
            if layer is not None:
                layer.build((None, None, width))
        if self.pooler is not None:
            self.pooler.build((None, width))
        self.built = True

    # computation

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        tokens = ops.cast(inputs["tokens"], "int32")
        mask = ops.not_equal(tokens, PAD)
        x = self.norm(self.embed(tokens, mask, inputs.get("segments")))
        x = self.drop(x, training=training)

        def encode(x: Tensor, mask: Tensor) -> Tensor:
            for layer in self.encoder:
                x = layer(x, mask=mask, training=training)
            return x

        x = run_left_aligned(encode, x, mask) if self.has_relative_positions else encode(x, mask)
        hidden = zoo_ops.pass_mask_on(zoo_ops.zero_masked(self.final_norm(x), mask), mask)
        pooled = {} if self.pooler is None else {"pooled": self.pool(hidden, mask)}
        return {"hidden": hidden, **pooled}

    def embed(self, tokens: Tensor, mask: Tensor, segments: Tensor | None = None) -> Tensor:
        """Return the sum of the embeddings, `(B, T, D)`; NaN from position L on if T is dynamic.

        Raises:
            ValueError: the sequences are longer than `max_length`.
        """
        length, max_length = tokens.shape[1], self.settings["max_length"]
        if length is not None and length > max_length:
            raise ValueError(
                f"sequence length {length} of tokens exceeds max_length={max_length}. Truncate the "
                "input, or build the model with a larger max_length."
            )
        segments = ops.zeros_like(tokens) if segments is None else ops.cast(segments, "int32")
        x = self.token_embedding(tokens) + self.segment_embedding(segments)
        return x if self.positions is None else x + self.positions.embed(compute_positions(mask))

    def pool(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the pooled output `(B, D)` of the first token; 0 for rows without tokens."""
        first = ops.argmax(ops.cast(mask, "int32"), axis=1)
        first_hidden = ops.take_along_axis(hidden, first[:, None, None], axis=1)
        return zoo_ops.zero_masked(self.pooler(ops.squeeze(first_hidden, 1)), ops.any(mask, axis=1))


def _make_initializer() -> keras.initializers.Initializer:
    """Return the embeddings' initializer: a normal of stddev 0.02, truncated at twice that."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


RELEASED_LAYER_OPTIONS = {"norm_first": False, "activation": "gelu", "epsilon": 1e-12}
"""Layer options of the released models."""


def _make_config(embedding_dim: int, num_layers: int) -> Config:
    """Return the settings of a size: heads of 64, feed-forward networks four times as wide."""
    return {
        "embedding_dim": embedding_dim,
        "units": 4 * embedding_dim,
        "num_heads": embedding_dim // 64,
        "num_layers": num_layers,
        "layer": dict(RELEASED_LAYER_OPTIONS),
    }


# config


@preset(BERT, "bert_tiny")
def bert_tiny() -> Config:
    """Return the sizes of Turc et al. 2019, arXiv 1908.08962, table 1: 2 layers of width 128."""
    return _make_config(128, 2)


@preset(BERT, "bert_mini")
def bert_mini() -> Config:
    """Return the sizes of Turc et al. 2019, table 1: 4 layers of width 256."""
    return _make_config(256, 4)


@preset(BERT, "bert_small")
def bert_small() -> Config:
    """Return the sizes of Turc et al. 2019, table 1: 4 layers of width 512."""
    return _make_config(512, 4)


@preset(BERT, "bert_medium")
def bert_medium() -> Config:
    """Return the sizes of Turc et al. 2019, table 1: 8 layers of width 512."""
    return _make_config(512, 8)


@preset(BERT, "bert_base")
def bert_base() -> Config:
    """Return the sizes of Devlin et al. 2018, section 3, "base"."""
    return _make_config(768, 12)


@preset(BERT, "bert_large")
def bert_large() -> Config:
    """Return the sizes of Devlin et al. 2018, section 3, "large"."""
    return _make_config(1024, 24)
