"""The Transformer encoder-decoder (Vaswani et al. 2017)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import keras
from keras import layers, ops

from attention_zoo.decoding import StepOutput
from attention_zoo.layers import (
    SinusoidalPositions,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.layers.transformer.encoder_layer import check_style
from attention_zoo.layers.transformer.kv_cache import Ancestors, Cache, KeysAndValues
from attention_zoo.layers.transformer.residual import closing_norm
from attention_zoo.models.caching import nothing_written, one_step_on
from attention_zoo.models.generation import (
    END,
    PAD,
    DecoderStart,
    GenerationMixin,
    mask_special_tokens,
)
from attention_zoo.models.positional_encoding import check_positions, make_self_attention
from attention_zoo.models.presets import Config, PresetMixin, model, preset
from attention_zoo.ops import Projection
from attention_zoo.typing import Tensor

TIES = ("none", "target", "all")
SINUSOIDAL = "sinusoidal"


class Written(NamedTuple):
    """Decoder output.

    hidden: `(B, T, D)`. weights: of the last layer's cross-attention, `(B, H, T, S)`, or None.
    """

    hidden: Tensor
    weights: Tensor | None


@model
@keras.saving.register_keras_serializable("attention_zoo")
class Transformer(PresetMixin, GenerationMixin, keras.Model):
    """An encoder and a decoder of self-attention and feed-forward layers.

    `memory = encode(sqrt(D) E_s[x] + p)`, `logits = decode(sqrt(D) E_t[y] + p, memory) W`

    Args:
        source_vocabulary_size: source tokens, including the 4 special ones.
        target_vocabulary_size: V, target tokens, including the 4 special ones.
        embedding_dim: D, width of the embeddings and of all layers.
        units: F, width of the feed-forward networks.
        num_heads: H; D / H is the width of a head.
        num_layers: N, of the encoder and of the decoder.
        layer: arguments of `layers.TransformerEncoderLayer` for every layer: any of "activation",
            "norm", "norm_first" (False: post-norm as in the paper; True, the default: pre-norm,
            with a norm after the last layer), "epsilon" and "stochastic_depth".
        tie: "target": W is E_t transposed; "all": E_s is E_t too, with one vocabulary; or "none".
        dropout: dropout rate on embeddings and sublayers.
        positions: "sinusoidal": p is added to embeddings, as in the paper; or a name of
            `layers.POSITIONS` ("rotary", "alibi", "t5", "shaw"): relative positions in the
            self-attention, p is 0; or "none": only the causal mask encodes the order.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers; the target begins with 2.
        training: enables dropout.
        project: if False, return the `ops.Projection` that computes the logits.

    Returns:
        Logits `(B, T, V)` of the tokens after each target token.

    Masking:
        Padding (0) in source or target does not affect other positions, at any depth.

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, section 3 and table 3: d_model is D, d_ff is F, h is
        H. Pre-norm: Xiong et al. 2020, arXiv 2002.04745.
    """

    # layers

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 512,
        units: int = 2048,
        num_heads: int = 8,
        num_layers: int = 6,
        layer: Config | None = None,
        tie: str = "target",
        dropout: float = 0.1,
        positions: str = "sinusoidal",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_vocabulary_size = source_vocabulary_size
        self.target_vocabulary_size = target_vocabulary_size
        layer = dict(layer or {})
        self.settings: dict[str, Any] = {
            "source_vocabulary_size": source_vocabulary_size,
            "target_vocabulary_size": target_vocabulary_size,
            "embedding_dim": embedding_dim,
            "units": units,
            "num_heads": num_heads,
            "num_layers": num_layers,
            "layer": layer,
            "tie": tie,
            "dropout": dropout,
            "positions": positions,
        }
        self._refuse()
        own: dict[str, Any] = {"dtype": self.dtype_policy}
        narrow = keras.initializers.RandomNormal(stddev=embedding_dim**-0.5)
        self.target_embedding, source_embedding = (
            layers.Embedding(size, embedding_dim, narrow, **own)
            for size in (target_vocabulary_size, source_vocabulary_size)
        )
        self.source_embedding = self.target_embedding if tie == "all" else source_embedding
        self.scale = embedding_dim**0.5
        self.positions = SinusoidalPositions(**own) if positions == SINUSOIDAL else None
        self.drop = Dropout(dropout, **own)
        of_layer = {"units": units, "num_heads": num_heads, "dropout": dropout, **layer, **own}
        heads = partial(make_self_attention, positions, num_heads, embedding_dim, **own)
        self.encoder = [
            TransformerEncoderLayer(attention=heads(), **of_layer) for _ in range(num_layers)
        ]
        self.decoder = [
            TransformerDecoderLayer(attention=heads(causal=True), **of_layer)
            for _ in range(num_layers)
        ]
        self.norms = [closing_norm(**layer, **own) for _ in range(2)]
        untied = layers.Dense(target_vocabulary_size, use_bias=False, **own)
        self.vocabulary = untied if tie == "none" else None
        self.build()

    def _refuse(self) -> None:
        """Raise ValueError for invalid settings."""
        size = self.settings
        for name in ("source_vocabulary_size", "target_vocabulary_size"):
            if size[name] < END + 2:
                raise ValueError(
                    f"{name} must be at least {END + 2} (4 special tokens and one more), "
                    f"got {size[name]}"
                )
        check_style(size["layer"])
        check_positions(size["positions"], (SINUSOIDAL,))
        if size["tie"] not in TIES:
            raise ValueError(f"tie must be one of {', '.join(TIES)}, got {size['tie']!r}")
        if size["tie"] == "all" and self.source_vocabulary_size != self.target_vocabulary_size:
            raise ValueError(
                f"tie='all' requires one vocabulary, got {self.source_vocabulary_size} source and "
                f"{self.target_vocabulary_size} target tokens; use tie='target' for two"
            )
        if size["embedding_dim"] % size["num_heads"]:
            raise ValueError(
                f"num_heads must divide embedding_dim, got num_heads={size['num_heads']}, "
                f"embedding_dim={size['embedding_dim']}"
            )

    def build(self, input_shape: Any = None) -> None:
        shape = (None, None, self.settings["embedding_dim"])
        for embedding in (self.source_embedding, self.target_embedding):
            if not embedding.built:
                embedding.build(None)
        for one in (self.positions, *self.encoder, *self.norms):
            if one is not None:
                one.build(shape)
        for layer in self.decoder:
            layer.build(shape, shape)
        if self.vocabulary is not None:
            self.vocabulary.build(shape)
        self.built = True

    # computation

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, project: bool = True
    ) -> Any:
        source, target = ops.cast(inputs["source"], "int32"), ops.cast(inputs["target"], "int32")
        memory = self.encode(source, training)
        of = self.projection(self.decode(target, memory, source, training).hidden)
        return of.logits() if project else of

    def encode(self, source: Tensor, training: bool | None = False) -> Tensor:
        """Return the memory `(B, S, D)` of the source `(B, S)`."""
        mask = ops.not_equal(source, PAD)
        return self.read(self._embed(self.source_embedding, source), mask, training)

    def read(self, embedded: Tensor, mask: Tensor, training: bool | None = False) -> Tensor:
        """Return the memory `(B, S, D)` of embeddings `(B, S, D)` with mask `(B, S)`."""
        x = self.drop(embedded, training=training)
        for layer in self.encoder:
            x = layer(x, mask=mask, training=training)
        return self.norms[0](x)

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        source: Tensor,
        training: bool | None = False,
        return_attention_scores: bool = False,
    ) -> Written:
        """Run the decoder on the target `(B, T)` and the memory of the source `(B, S)`."""
        masks = {"mask": ops.not_equal(target, PAD), "memory_mask": ops.not_equal(source, PAD)}
        x = self.drop(self._embed(self.target_embedding, target), training=training)
        *first, last = self.decoder
        for layer in first:
            x = layer(x, memory, **masks, training=training)
        x = last(
            x, memory, **masks, return_attention_scores=return_attention_scores, training=training
        )
        x, _, weights = x if return_attention_scores else (x, None, None)
        return Written(self.norms[1](x), weights)

    def projection(self, hidden: Tensor) -> Projection:
        """Return the output projection of the decoder output; its logits are `(..., V)`."""
        if self.vocabulary is not None:
            return Projection(hidden, self.vocabulary.kernel)
        return Projection(hidden, ops.transpose(self.target_embedding.embeddings))

    def _embed(self, embedding: Any, tokens: Tensor) -> Tensor:
        return self._placed(embedding(tokens) * self.scale, 0)

    def _placed(self, x: Tensor, start: Any) -> Tensor:
        """Add absolute positions to embeddings, if the model has them."""
        return x if self.positions is None else self.positions(x, start=start)

    def decoder_step(self, source: Tensor, width: int, room: Any) -> DecoderStart:
        """Encode `source (B, S)` once and return the decoder's step function and initial state."""
        reading = self.writing(self.encode(source), ops.not_equal(source, PAD), width, room)

        def step(tokens: Tensor, state: dict[str, Any]) -> StepOutput:
            output = reading.step(tokens, state)
            return output._replace(logits=mask_special_tokens(output.logits))

        return reading._replace(step=step)

    def writing(self, memory: Tensor, mask: Tensor, width: int, room: Any) -> DecoderStart:
        """Return step function and initial state for an encoded source; its logits are not masked.

        Args:
            memory: `(B, S, D)`. mask: `(B, S)`, True at source tokens.
            width, room: as in `decoder_step`.
        """
        memories = [layer.read(memory, mask) for layer in self.decoder]

        def step(tokens: Tensor, state: dict[str, Any]) -> StepOutput:
            ancestors = Ancestors(state["at"], state["parents"], width).here()
            seen, rooms, weights = ancestors.seen(), [], None
            nowhere = ops.zeros((1, 1, memory.shape[-1]), dtype=memory.dtype)
            place = self._placed(nowhere, ancestors.step)
            x = self.target_embedding(tokens) * self.scale + place
            for layer, kept, read in zip(self.decoder, state["rooms"].value, memories, strict=True):
                cache = Cache(KeysAndValues(*kept), ancestors, seen)
                x, cache, weights = layer.step(x, cache, read, mask)
                rooms.append(cache.room)
            x, state = self.norms[1](x), one_step_on(ancestors, rooms)
            return StepOutput(self.projection(x).logits(), state, ops.mean(weights, axis=1), x)

        heads = self.settings["num_heads"]
        state = nothing_written(
            [None] * len(self.decoder),
            ops.shape(mask)[0],
            (heads, self.settings["embedding_dim"] // heads),
            width,
            room,
            self.compute_dtype,
        )
        return DecoderStart(step, state)


# config


@preset(Transformer, "transformer_base")
def transformer_base() -> Config:
    """Return the sizes of table 3, "base"."""
    return {
        "embedding_dim": 512,
        "units": 2048,
        "num_heads": 8,
        "num_layers": 6,
        "layer": {"norm_first": False},
        "dropout": 0.1,
    }


@preset(Transformer, "transformer_big")
def transformer_big() -> Config:
    """Return the sizes of table 3, "big"."""
    return {
        "embedding_dim": 1024,
        "units": 4096,
        "num_heads": 16,
        "num_layers": 6,
        "layer": {"norm_first": False},
        "dropout": 0.3,
    }


@preset(Transformer, "transformer_small")
def transformer_small() -> Config:
    """Return sizes for small data and a CPU, pre-norm; not the paper's."""
    return {"embedding_dim": 256, "units": 1024, "num_heads": 4, "num_layers": 4, "dropout": 0.2}


@preset(Transformer, "transformer_tiny")
def transformer_tiny() -> Config:
    """Return sizes for some 10,000 sentences, tests and toy data, pre-norm; not the paper's."""
    return {"embedding_dim": 128, "units": 256, "num_heads": 4, "num_layers": 4, "dropout": 0.3}
