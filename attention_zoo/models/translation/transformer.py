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
from attention_zoo.layers.quantization import get_float_embeddings, get_float_kernel
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.layers.transformer.kv_cache import Ancestors, KeysAndValues, KVCache
from attention_zoo.layers.transformer.residual import make_final_norm
from attention_zoo.models.caching import make_empty_state, make_next_state
from attention_zoo.models.generation import (
    PAD,
    DecoderStart,
    GenerationMixin,
    check_vocabulary_size,
)
from attention_zoo.models.prebuilt import PrebuiltModel
from attention_zoo.models.presets import (
    Config,
    add_presets,
    check_options,
    collect_arguments,
    register_model,
)
from attention_zoo.models.transformer_options import check_layer_settings, make_self_attention
from attention_zoo.ops import Projection
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

TIES = ("none", "target", "all")
SINUSOIDAL, SINUSOIDAL_HALVES = "sinusoidal", "sinusoidal_halves"


class TransformerOutput(NamedTuple):
    """Decoder output.

    hidden: `(B, T, D)`. weights: weights of the last cross-attention, `(B, H, T, S)`, or None.
    """

    hidden: Tensor
    weights: Tensor | None


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class Transformer(GenerationMixin, PrebuiltModel):
    """An encoder and a decoder of self-attention and feed-forward layers.

    `memory = encode(sqrt(D) E_s[x] + p)`, `logits = decode(sqrt(D) E_t[y] + p, memory) W + b`

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
            Or a dict of "kind", one of these, and "bias": whether b is a weight, as in the
            checkpoints of Marian and BART; otherwise, it is 0.
        dropout: dropout rate on embeddings and sublayers.
        positions: "sinusoidal": p is added to embeddings, as in the paper; "sinusoidal_halves": all
            sines precede all cosines, as in Marian; or a name of
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
        tie: str | Config = "target",
        dropout: float = 0.1,
        positions: str = "sinusoidal",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_vocabulary_size = source_vocabulary_size
        self.target_vocabulary_size = target_vocabulary_size
        self.settings = collect_arguments(locals())
        self._check_settings()
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        initializer = keras.initializers.RandomNormal(stddev=embedding_dim**-0.5)
        self.target_embedding, source_embedding = (
            layers.Embedding(size, embedding_dim, initializer, **common)
            for size in (target_vocabulary_size, source_vocabulary_size)
        )
        kind, self.use_output_bias = self._read_tie()
        self.source_embedding = self.target_embedding if kind == "all" else source_embedding
        self.scale = embedding_dim**0.5
        self.positions: Any = None
        if positions in (SINUSOIDAL, SINUSOIDAL_HALVES):
            is_interleaved = positions == SINUSOIDAL
            self.positions = SinusoidalPositions(interleaved=is_interleaved, **common)
        self.drop = Dropout(dropout, **common)
        sizes = {"units": units, "num_heads": num_heads, "dropout": dropout}
        layer_options = {**sizes, **self.settings["layer"], **common}
        heads = partial(make_self_attention, positions, num_heads, embedding_dim, **common)
        self.encoder = [
            TransformerEncoderLayer(attention=heads(), **layer_options) for _ in range(num_layers)
        ]
        self.decoder = [
            TransformerDecoderLayer(attention=heads(causal=True), **layer_options)
            for _ in range(num_layers)
        ]
        self.norms = [make_final_norm(**self.settings["layer"], **common) for _ in range(2)]
        untied = layers.Dense(target_vocabulary_size, use_bias=False, **common)
        self.vocabulary = untied if kind == "none" else None
        self.build()

    def _check_settings(self) -> None:
        """Raise ValueError for invalid settings."""
        source_size, target_size = self.source_vocabulary_size, self.target_vocabulary_size
        check_vocabulary_size("source_vocabulary_size", source_size)
        check_vocabulary_size("target_vocabulary_size", target_size)
        check_layer_settings(self.settings, SINUSOIDAL, SINUSOIDAL_HALVES)
        tie, _ = self._read_tie()
        check_choice("tie", tie, TIES)
        if tie == "all" and source_size != target_size:
            raise ValueError(
                f"tie='all' requires one vocabulary, got {source_size} source and {target_size} "
                "target tokens; use tie='target' for two"
            )

    def _read_tie(self) -> tuple[str, bool]:
        """Return how the output layer is tied, and whether it has a bias."""
        tie = self.settings["tie"]
        options = tie if isinstance(tie, dict) else {"kind": tie}
        check_options("tie", options, ("kind", "bias"))
        return options.get("kind", "target"), bool(options.get("bias", False))

    def build_layers(self) -> None:
        shape = (None, None, self.settings["embedding_dim"])
        self.source_embedding.build((None, None))
        self.target_embedding.build((None, None))  # does nothing if it is the same layer
        for layer in (self.positions, *self.encoder, *self.norms):
            if layer is not None:
                layer.build(shape)
        for layer in self.decoder:
            layer.build(shape, shape)
        if self.vocabulary is not None:
            self.vocabulary.build(shape)
        self.output_bias = None
        if self.use_output_bias:
            words = (self.target_vocabulary_size,)
            self.output_bias = self.add_weight(shape=words, initializer="zeros", name="output_bias")

    # computation

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, project: bool = True
    ) -> Any:
        source, target = ops.cast(inputs["source"], "int32"), ops.cast(inputs["target"], "int32")
        memory = self.encode(source, training)
        projection = self.projection(self.decode(target, memory, source, training).hidden)
        return projection.logits() if project else projection

    def encode(self, source: Tensor, training: bool | None = False) -> Tensor:
        """Return the memory `(B, S, D)` of the source `(B, S)`."""
        mask = ops.not_equal(source, PAD)
        return self.encode_embedded(self._embed(self.source_embedding, source), mask, training)

    def encode_embedded(
        self, embedded: Tensor, mask: Tensor, training: bool | None = False
    ) -> Tensor:
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
    ) -> TransformerOutput:
        """Run the decoder on the target `(B, T)` and the memory of the source `(B, S)`."""
        masks = {"mask": ops.not_equal(target, PAD), "memory_mask": ops.not_equal(source, PAD)}
        x = self.drop(self._embed(self.target_embedding, target), training=training)
        *lower_layers, top_layer = self.decoder
        for layer in lower_layers:
            x = layer(x, memory, **masks, training=training)
        x = top_layer(
            x, memory, **masks, return_attention_scores=return_attention_scores, training=training
        )
        x, _, weights = x if return_attention_scores else (x, None, None)
        return TransformerOutput(self.norms[1](x), weights)

    def projection(self, hidden: Tensor) -> Projection:
        """Return the output projection of the decoder output; its logits are `(..., V)`."""
        if self.vocabulary is not None:
            return Projection(hidden, get_float_kernel(self.vocabulary), self.output_bias)
        table = ops.transpose(get_float_embeddings(self.target_embedding))
        return Projection(hidden, table, self.output_bias)

    def _embed(self, embedding: Any, tokens: Tensor) -> Tensor:
        return self._add_positions(embedding(tokens) * self.scale, 0)

    def _add_positions(self, x: Tensor, start: Any) -> Tensor:
        """Add absolute positions to embeddings, if the model has them."""
        return x if self.positions is None else self.positions(x, start=start)

    def start_decoding(self, source: Tensor, width: int, max_steps: Any) -> DecoderStart:
        """Encode `source (B, S)` once and return the decoder's step function and initial state."""
        memory, mask = self.encode(source), ops.not_equal(source, PAD)
        return self.start_decoding_memory(memory, mask, width, max_steps).mask_special_tokens()

    def start_decoding_memory(
        self, memory: Tensor, mask: Tensor, width: int, max_steps: Any
    ) -> DecoderStart:
        """Return step function and initial state for an encoded source; its logits are not masked.

        Args:
            memory: `(B, S, D)`. mask: `(B, S)`, True at source tokens.
            width, max_steps: as in `start_decoding`.
        """
        memories = [layer.project_memory(memory, mask) for layer in self.decoder]

        def step(tokens: Tensor, state: dict[str, Any]) -> StepOutput:
            ancestors = Ancestors(state["num_steps"], state["parents"], width).add_current_step()
            self_attention_mask, updated, weights = ancestors.make_mask(), [], None
            zeros = ops.zeros((1, 1, memory.shape[-1]), dtype=memory.dtype)
            position_encoding = self._add_positions(zeros, ancestors.step)
            x = self.target_embedding(tokens) * self.scale + position_encoding
            for layer, entries, read in zip(
                self.decoder, state["cache"].value, memories, strict=True
            ):
                cache = KVCache(KeysAndValues(*entries), ancestors, self_attention_mask)
                x, cache, weights = layer.step(x, cache, read, mask)
                updated.append(cache.entries)
            x, state = self.norms[1](x), make_next_state(ancestors, updated)
            return StepOutput(self.projection(x).logits(), state, ops.mean(weights, axis=1), x)

        prompts = [None] * len(self.decoder)
        state = make_empty_state(self, prompts, ops.shape(mask)[0], width, max_steps)
        return DecoderStart(step, state)


# config

POST_NORM = {"norm_first": False}

add_presets(
    Transformer,
    # The sizes of table 3, "base" and "big".
    transformer_base=Config(
        embedding_dim=512, units=2048, num_heads=8, num_layers=6, dropout=0.1, layer=POST_NORM
    ),
    transformer_big=Config(
        embedding_dim=1024, units=4096, num_heads=16, num_layers=6, dropout=0.3, layer=POST_NORM
    ),
    # Sizes for small data and a CPU, pre-norm; not the paper's.
    transformer_small=Config(embedding_dim=256, units=1024, num_heads=4, num_layers=4, dropout=0.2),
    # Sizes for some 10,000 sentences, tests and toy data, pre-norm; not the paper's.
    transformer_tiny=Config(embedding_dim=128, units=256, num_heads=4, num_layers=4, dropout=0.3),
)
