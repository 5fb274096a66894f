"""BERT: an encoder that looks both ways (Devlin et al. 2018)."""

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
from attention_zoo.layers.dropout import Dropout
from attention_zoo.layers.positions.places import places_of
from attention_zoo.layers.residual import NORMS, closing_norm
from attention_zoo.layers.transformer_encoder_layer import check_style
from attention_zoo.models import places
from attention_zoo.models.presets import Config, PresetMixin, model, preset

Tensor = Any

PAD = 0


@model
@keras.saving.register_keras_serializable("attention_zoo")
class BERT(PresetMixin, keras.Model):
    """Embeddings of tokens, places and segments, and a stack of self-attention layers over them.

    `x_t = drop(norm(E[token_t] + p_t + G[segment_t]))`, `h = layers(x)`,
    `pooled = tanh(h_first W + b)`

    Args:
        vocabulary_size: V, all tokens; 0 is padding.
        embedding_dim: D, width of the embeddings and of all layers.
        units: F, width of the feed-forward networks.
        num_heads: H; D / H is the width of a head.
        num_layers: N.
        max_length: L, how many places there are.
        num_segments: how many segments there are.
        layer: of every layer, arguments of `layers.TransformerEncoderLayer`: any of "activation",
            "norm", "norm_first" (False: post-norm as in the paper; True, the default: pre-norm,
            with a norm after the last layer), "epsilon" and "stochastic_depth". The norm of the
            embeddings is of the same kind. "gelu" is the exact one (erf), as released. Moreover
            "positions", how its attention tells places: "learned", by p, which is P[place_t], as in
            the paper; a name of `layers.POSITIONS` ("rotary", "alibi", "t5", "shaw"), by distances,
            p being 0; or "none".
        dropout: rate on embeddings, attention weights and sublayers, in training.
        use_pooler: whether there is a pooled output; what is trained by tokens alone has none.

    Call arguments:
        inputs: `{"tokens": (B, T)}` and perhaps `"segments": (B, T)`, integers; all of segment 0
            without. T is at most L.
        training: switches dropout on.

    Returns:
        `{"hidden": (B, T, D), "pooled": (B, D)}`; pooled, where there is one, is of the first
        token.

    Masking:
        Padding (0) changes nothing at the other positions, at any depth and wherever it stands:
        places count tokens only. There `hidden` is 0; of no token at all, `pooled` is 0 too.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 3: L is N, H is D, A is H. The released model
        counts padding among the places; with padding on the right, as it is used, both agree.
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
        self._refuse()
        own: dict[str, Any] = {"dtype": self.dtype_policy}
        self.token_embedding, self.segment_embedding = (
            layers.Embedding(size, embedding_dim, _narrow(), **own)
            for size in (vocabulary_size, num_segments)
        )
        positions = layer.pop("positions", places.LEARNED)
        absolute = positions == places.LEARNED
        self.positions: Any = LearnedPositions(max_length, **own) if absolute else None
        self.relative = positions in POSITIONS
        self.norm = NORMS.get(layer.get("norm", "layer"))(epsilon=layer.get("epsilon", 1e-6), **own)
        self.drop = Dropout(dropout, **own)
        key_dim = embedding_dim // num_heads
        self.encoder = [
            TransformerEncoderLayer(
                units,
                num_heads,
                MultiHeadAttention(
                    num_heads,
                    key_dim,
                    dropout=dropout,
                    positions=places.relative(positions, **own),
                    **own,
                ),
                **{"dropout": dropout, **layer, **own},
            )
            for _ in range(num_layers)
        ]
        self.closing_norm = closing_norm(**layer, **own)
        self.pooler: Any = layers.Dense(embedding_dim, "tanh", **own) if use_pooler else None
        self.build()

    def _refuse(self) -> None:
        """ValueError for numbers that make no model."""
        size = self.settings
        for name in ("vocabulary_size", "embedding_dim", "units", "num_heads", "num_layers"):
            zoo_ops.whole_number(name, size[name])
        for name in ("max_length", "num_segments"):
            zoo_ops.whole_number(name, size[name])
        check_style(size["layer"], more=("positions",))
        places.check_positions(size["layer"].get("positions", places.LEARNED), (places.LEARNED,))
        if size["embedding_dim"] % size["num_heads"]:
            raise ValueError(
                f"num_heads must divide embedding_dim, got {size['num_heads']} for "
                f"{size['embedding_dim']}"
            )

    def build(self, input_shape: Any = None) -> None:
        width = self.settings["embedding_dim"]
        for embedding in (self.token_embedding, self.segment_embedding):
            embedding.build(None)
        for one in (self.positions, self.norm, *self.encoder, self.closing_norm):
            if one is not None:
                one.build((None, None, width))
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

        x = places.at_front(encode, x, mask) if self.relative else encode(x, mask)
        hidden = zoo_ops.pass_mask_on(zoo_ops.zero_masked(self.closing_norm(x), mask), mask)
        pooled = {} if self.pooler is None else {"pooled": self.pool(hidden, mask)}
        return {"hidden": hidden, **pooled}

    def embed(self, tokens: Tensor, mask: Tensor, segments: Tensor | None = None) -> Tensor:
        """The three embeddings' sum `(B, T, D)`; NaN at places from L on that only the run shows.

        Raises:
            ValueError: there are more positions than places.
        """
        length, most = tokens.shape[1], self.settings["max_length"]
        if length is not None and length > most:
            raise ValueError(
                f"tokens have {length} positions, but the model has {most} places; cut them, or "
                "make it with a greater max_length"
            )
        segments = ops.zeros_like(tokens) if segments is None else ops.cast(segments, "int32")
        x = self.token_embedding(tokens) + self.segment_embedding(segments)
        return x if self.positions is None else x + self.positions.at(places_of(mask))

    def pool(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """`(B, D)` of the first token; 0 where there is none."""
        first = ops.argmax(ops.cast(mask, "int32"), axis=1)
        taken = ops.take_along_axis(hidden, first[:, None, None], axis=1)
        return zoo_ops.zero_masked(self.pooler(ops.squeeze(taken, 1)), ops.any(mask, axis=1))


def _narrow() -> keras.initializers.Initializer:
    """What the embeddings begin as: normal, 0.02 wide, cut at twice that."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


RELEASED = {"norm_first": False, "activation": "gelu", "epsilon": 1e-12}
"""What the released models' layers are."""


def _of_size(embedding_dim: int, num_layers: int) -> Config:
    """All else follows: heads of 64, feed-forward networks four times as wide."""
    return {
        "embedding_dim": embedding_dim,
        "units": 4 * embedding_dim,
        "num_heads": embedding_dim // 64,
        "num_layers": num_layers,
        "layer": dict(RELEASED),
    }


# config


@preset(BERT, "bert_tiny")
def bert_tiny() -> Config:
    """Turc et al. 2019, arXiv 1908.08962, the sizes of table 1: 2 layers, 128 wide."""
    return _of_size(128, 2)


@preset(BERT, "bert_mini")
def bert_mini() -> Config:
    """Turc et al. 2019, table 1: 4 layers, 256 wide."""
    return _of_size(256, 4)


@preset(BERT, "bert_small")
def bert_small() -> Config:
    """Turc et al. 2019, table 1: 4 layers, 512 wide."""
    return _of_size(512, 4)


@preset(BERT, "bert_medium")
def bert_medium() -> Config:
    """Turc et al. 2019, table 1: 8 layers, 512 wide."""
    return _of_size(512, 8)


@preset(BERT, "bert_base")
def bert_base() -> Config:
    """Devlin et al. 2018, section 3, "base"."""
    return _of_size(768, 12)


@preset(BERT, "bert_large")
def bert_large() -> Config:
    """Devlin et al. 2018, section 3, "large"."""
    return _of_size(1024, 24)
