"""GPT: the decoder of a Transformer alone, which writes on (Radford et al. 2018 and 2019)."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.decoding import SearchOptions, StepOutput
from attention_zoo.decoding.plan import known
from attention_zoo.layers import (
    POSITIONS,
    LearnedPositions,
    MultiHeadAttention,
    TransformerEncoderLayer,
)
from attention_zoo.layers.dropout import Dropout
from attention_zoo.layers.kv_cache import Ancestors, Cache, KeysAndValues
from attention_zoo.layers.positions.places import places_of
from attention_zoo.layers.residual import closing_norm
from attention_zoo.layers.transformer_encoder_layer import check_style
from attention_zoo.models import places
from attention_zoo.models.caching import nothing_written, one_step_on
from attention_zoo.models.generation import (
    END,
    PAD,
    START,
    DecoderStart,
    GenerationMixin,
    mask_special_tokens,
)
from attention_zoo.models.presets import Config, PresetMixin, model, preset

Tensor = Any

STYLE = {"activation": "gelu_tanh", "epsilon": 1e-5}
"""What layers are unless they are told otherwise, as released."""


@model
@keras.saving.register_keras_serializable("attention_zoo")
class GPT(PresetMixin, GenerationMixin, keras.Model):
    """A stack of causal self-attention layers: each token tells the next one.

    `x = E[tokens] + p`, `logits = norm(layers(x)) E^T`

    `search` writes on: its source `(B, S)` is what the text begins with (a prompt), read at once,
    and its targets are what follows.

    Args:
        vocabulary_size: V, the 4 special tokens included.
        embedding_dim: D, width of the embeddings and of all layers.
        units: F, width of the feed-forward networks.
        num_heads: H; D / H is the width of a head.
        num_layers: N.
        max_length: L, most tokens of a text.
        layer: of every layer, arguments of `layers.TransformerEncoderLayer`: any of "activation"
            ("gelu_tanh" unless told), "norm", "norm_first" (True, the default: pre-norm as in
            GPT-2, with a norm after the last layer; False: post-norm as in GPT-1), "epsilon"
            (1e-5 unless told) and "stochastic_depth".
        dropout: rate on embeddings, attention weights and sublayers, in training.
        positions: "learned": p is P[places], as in the papers; or a name of `layers.POSITIONS`
            ("rotary", "alibi", "t5", "shaw"): the attention of each layer sees distances and p
            is 0; or "none", where the causal mask alone tells of order.

    Call arguments:
        inputs: `{"tokens": (B, T)}`, integers that begin with 2; T at most L.
        training: switches dropout on.
        project: False for the `ops.Projection` that the logits are of, in place of them.

    Returns:
        Logits `(B, T, V)` of the tokens after each token.

    Masking:
        Padding (0) changes nothing at the other positions, at any depth and wherever it stands:
        places count tokens only. No logits know of later tokens.

    Reference:
        Radford et al. 2018, "Improving language understanding by generative pre-training", section
        3.1 (W_e is E, W_p is P); Radford et al. 2019, "Language models are unsupervised multitask
        learners", section 2.3 and table 2. Kernels begin as Keras has them, not 0.02 wide and
        narrower with depth. As released, W is E transposed.
    """

    projects = True  # `project=False` is known to the training step

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 768,
        units: int = 3072,
        num_heads: int = 12,
        num_layers: int = 12,
        max_length: int = 1024,
        layer: Config | None = None,
        dropout: float = 0.1,
        positions: str = places.LEARNED,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target_vocabulary_size = self.source_vocabulary_size = vocabulary_size
        self.settings: dict[str, Any] = {
            "vocabulary_size": vocabulary_size,
            "embedding_dim": embedding_dim,
            "units": units,
            "num_heads": num_heads,
            "num_layers": num_layers,
            "max_length": max_length,
            "layer": dict(layer or {}),
            "dropout": dropout,
            "positions": positions,
        }
        self._refuse()
        own: dict[str, Any] = {"dtype": self.dtype_policy}
        style = {**STYLE, **(layer or {})}
        narrow = keras.initializers.RandomNormal(stddev=0.02)
        self.token_embedding = layers.Embedding(vocabulary_size, embedding_dim, narrow, **own)
        absolute = positions == places.LEARNED
        self.positions: Any = LearnedPositions(max_length, **own) if absolute else None
        self.drop = Dropout(dropout, **own)
        key_dim = embedding_dim // num_heads
        relative = partial(places.relative, positions, causal=True, **own)
        self.decoder = [
            TransformerEncoderLayer(
                units,
                num_heads,
                MultiHeadAttention(
                    num_heads, key_dim, dropout=dropout, positions=relative(), **own
                ),
                **{"dropout": dropout, **style, **own},
            )
            for _ in range(num_layers)
        ]
        self.norm = closing_norm(**style, **own)
        self.build()

    def _refuse(self) -> None:
        """ValueError for numbers that make no model."""
        size = self.settings
        for name in ("embedding_dim", "units", "num_heads", "num_layers", "max_length"):
            zoo_ops.whole_number(name, size[name])
        if size["vocabulary_size"] < END + 2:
            raise ValueError(
                f"vocabulary_size must be at least {END + 2} (4 special tokens and one more), "
                f"got {size['vocabulary_size']}"
            )
        check_style(size["layer"])
        places.check_positions(size["positions"], (places.LEARNED,))
        if size["embedding_dim"] % size["num_heads"]:
            raise ValueError(
                f"num_heads must divide embedding_dim, got {size['num_heads']} for "
                f"{size['embedding_dim']}"
            )

    def build(self, input_shape: Any = None) -> None:
        shape = (None, None, self.settings["embedding_dim"])
        self.token_embedding.build(None)
        for one in (self.positions, *self.decoder, self.norm):
            if one is not None:
                one.build(shape)
        self.built = True

    # computation

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, project: bool = True
    ) -> Any:
        tokens = ops.cast(inputs["tokens"], "int32")
        length, most = tokens.shape[1], self.settings["max_length"]
        if length is not None and length > most:
            raise ValueError(
                f"tokens have {length} positions, but the model has {most} places; cut them, or "
                "make it with a greater max_length"
            )
        mask = ops.not_equal(tokens, PAD)
        x = self.drop(self._embed(tokens, places_of(mask)), training=training)

        def decode(x: Tensor, mask: Tensor) -> Tensor:
            for layer in self.decoder:
                x = layer(x, mask=mask, use_causal_mask=True, training=training)
            return x

        relative = self.settings["positions"] in POSITIONS
        x = places.at_front(decode, x, mask) if relative else decode(x, mask)
        of = self.projection(self.norm(x))
        return of.logits() if project else of

    def projection(self, hidden: Tensor) -> zoo_ops.Projection:
        """What the logits `(..., V)` are of what the last layer put out, normalised."""
        return zoo_ops.Projection(hidden, ops.transpose(self.token_embedding.embeddings))

    def _embed(self, tokens: Tensor, place: Tensor) -> Tensor:
        x = self.token_embedding(tokens)
        return x if self.positions is None else x + self.positions.at(place)

    def decoder_step(self, source: Tensor, width: int, room: Any) -> DecoderStart:
        """What a search needs to write on after `source (B, S)`: all but its last token read.

        The last token, 2 where there is none, is what the first step is given.
        """
        order = zoo_ops.to_end(ops.not_equal(source, PAD))
        source = ops.pad(ops.take_along_axis(source, order, axis=1), ((0, 0), (1, 0)))
        begun, last = source[:, :-1], source[:, -1]
        start = ops.where(last == PAD, START, last)
        before = ops.not_equal(begun, PAD)
        place = places_of(before)
        first = ops.sum(ops.cast(before, "int32"), axis=1)
        read = self._read(begun, place, before)

        def step(tokens: Tensor, state: dict[str, Any]) -> StepOutput:
            length = ops.shape(begun)[1]
            ancestors = Ancestors(state["at"], state["came_by"], width, length).here()
            seen = _behind(before, ancestors.seen())
            rooms, x = [], self._embed(tokens, (first + ancestors.step)[:, None])
            for layer, kept in zip(self.decoder, state["rooms"].value, strict=True):
                cache = Cache(KeysAndValues(*kept), ancestors, seen)
                x, cache = layer.step(x, cache)
                rooms.append(cache.room)
            x = self.norm(x)
            logits = mask_special_tokens(self.projection(x).logits())
            return StepOutput(logits, one_step_on(ancestors, rooms), hidden=x)

        heads = self.settings["num_heads"]
        size = heads, self.settings["embedding_dim"] // heads
        state = nothing_written(read, ops.shape(source)[0], size, width, room, self.compute_dtype)
        return DecoderStart(step, state, start)

    def _read(self, tokens: Tensor, place: Tensor, mask: Tensor) -> list[KeysAndValues]:
        """The keys and values of tokens `(B, S)` in every layer."""
        x, read = self._embed(tokens, place), []
        for layer in self.decoder:
            x, kept = layer.prefill(x, mask)
            read.append(kept)
        return read

    def check_search(self, source: Tensor, options: SearchOptions) -> None:
        """ValueError where what is read and what may be written have more tokens than places."""
        super().check_search(source, options)
        ids, most = known(source), self.settings["max_length"]
        if ids is None or not ids.size:
            return
        longest = max(int((ids != PAD).sum(axis=1).max()), 1)
        limit = known(options.limit(longest))
        if limit is not None and longest + int(limit) - 1 > most:
            raise ValueError(
                f"a source has {longest} tokens and its answer may have {int(limit)}, but the "
                f"model has {most} places; shorten it, or set max_length to at most "
                f"{max(most - longest + 1, 0)}"
            )


def _behind(read: Tensor, written: Tensor) -> Tensor:
    """What hypotheses see, `(B, 1, N, P + S)`: what was read `(B, P)`, then what was written."""
    batch, _, count, _ = ops.shape(written)
    shown = ops.broadcast_to(read[:, None, None], (batch, 1, count, ops.shape(read)[1]))
    return ops.concatenate([shown, written], axis=-1)


def _of_size(embedding_dim: int, num_layers: int) -> Config:
    """All else follows: heads of 64, feed-forward networks four times as wide."""
    return {
        "embedding_dim": embedding_dim,
        "units": 4 * embedding_dim,
        "num_heads": embedding_dim // 64,
        "num_layers": num_layers,
    }


# config


@preset(GPT, "gpt_base")
def gpt_base() -> Config:
    """Radford et al. 2018, section 4.1: post-norm, 512 places."""
    return {**_of_size(768, 12), "max_length": 512, "layer": {"norm_first": False}}


@preset(GPT, "gpt2_small")
def gpt2_small() -> Config:
    """Radford et al. 2019, table 2, the first row."""
    return _of_size(768, 12)


@preset(GPT, "gpt2_medium")
def gpt2_medium() -> Config:
    """Table 2, the second row."""
    return _of_size(1024, 24)


@preset(GPT, "gpt2_large")
def gpt2_large() -> Config:
    """Table 2, the third row."""
    return _of_size(1280, 36)


@preset(GPT, "gpt2_xl")
def gpt2_xl() -> Config:
    """Table 2, the last row."""
    return _of_size(1600, 48)


@preset(GPT, "gpt_small")
def gpt_small() -> Config:
    """Sizes for small data and a CPU; not the paper's."""
    return {"embedding_dim": 256, "units": 1024, "num_heads": 4, "num_layers": 4, "max_length": 512}


@preset(GPT, "gpt_tiny")
def gpt_tiny() -> Config:
    """Sizes for tests and toys; not the paper's."""
    return {"embedding_dim": 128, "units": 512, "num_heads": 4, "num_layers": 2, "max_length": 256}
