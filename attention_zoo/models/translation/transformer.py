"""The Transformer encoder-decoder (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import layers, ops

from attention_zoo.decoding import StepOutput
from attention_zoo.layers import (
    LearnedPositions,
    SinusoidalPositions,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from attention_zoo.layers.quantization import get_float_embeddings, get_float_kernel
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.layers.transformer.encoder_layer import LAYER_OPTIONS
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
from attention_zoo.models.transformer_options import (
    HEAD_OPTIONS,
    LEARNED,
    PositionOptions,
    check_num_heads,
    make_self_attention,
    read_positions,
)
from attention_zoo.ops import Projection, whole_number
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

TIES = ("none", "target", "embeddings", "all")
TIED_OUTPUTS, SHARED_EMBEDDINGS = ("target", "all"), ("embeddings", "all")
SINUSOIDAL, SINUSOIDAL_HALVES = "sinusoidal", "sinusoidal_halves"
ABSOLUTE = (SINUSOIDAL, SINUSOIDAL_HALVES, LEARNED)


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

    `memory = encode(norm(s E_s[x] + p))`, `logits = decode(norm(s E_t[y] + p), memory) W + b`;
    by default, s is sqrt(D) and there is no norm

    Args:
        source_vocabulary_size: source tokens, including the 4 special ones.
        target_vocabulary_size: V, target tokens, including the 4 special ones.
        embedding_dim: D, width of the embeddings and of all layers.
        units: F, width of the feed-forward networks.
        num_heads: H; D / H is the width of a head, unless `layer["attention"]` has "key_dim".
        num_layers: N, of the encoder and of the decoder; or two numbers, one for each. With 0
            encoder layers, the memory is `norm(s E_s[x])`, without positions.
        layer: arguments of `layers.TransformerEncoderLayer` for every layer: any of "activation",
            "norm", "norm_first" (False: post-norm as in the paper; True, the default: pre-norm,
            with a norm after the last layer), "epsilon" and "stochastic_depth"; and "attention", a
            dict of "key_dim", the width of a head, and "use_bias".
        tie: "target": W is E_t transposed; "embeddings": E_s is E_t, with one vocabulary; "all":
            both; or "none". Or a dict of "kind", one of these, and "bias": whether b is a weight,
            as in the checkpoints of Marian, BART and T5; otherwise, it is 0.
        dropout: dropout rate on embeddings and sublayers.
        positions: "sinusoidal": p is added to embeddings, as in the paper; "sinusoidal_halves": all
            sines precede all cosines, as in Marian; or a name of
            `layers.POSITIONS` ("rotary", "alibi", "t5", "shaw"): relative positions in the
            self-attention, p is 0; or "none": only the causal mask encodes the order. Or a dict of
            "kind", one of these or "learned" (p is a weight, of "max_length" positions), and any
            of "scale" (s), "norm" (whether embeddings and positions are normalized, as in BART)
            and, for relative positions, "shared" (whether all layers of the encoder, and all of
            the decoder, share them, as in T5) and arguments of their class.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers; the target begins with 2.
        training: enables dropout.
        project: if False, return the `ops.Projection` that computes the logits.

    Returns:
        Logits `(B, T, V)` of the tokens after each target token.

    Masking:
        Padding (0) in source or target does not affect other positions, at any depth.

    Raises:
        ValueError: an unknown or invalid option, heads that do not divide the width, or a tie of
            vocabularies of different sizes.

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
        num_layers: int | Sequence[int] = 6,
        layer: Config | None = None,
        tie: str | Config = "target",
        dropout: float = 0.1,
        positions: str | Config = "sinusoidal",
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
        is_shared = kind in SHARED_EMBEDDINGS
        self.source_embedding = self.target_embedding if is_shared else source_embedding
        options = read_positions(positions, *ABSOLUTE)
        self.scale = embedding_dim**0.5 if options.scale is None else options.scale
        self.max_length, self.positions_kind = options.max_length, options.kind
        self.source_positions, self.positions = self._make_absolute_positions(options)
        self.drop = Dropout(dropout, **common)
        self._make_layers(options)
        layer = {**self.settings["layer"], **common}
        stacks = self.encoder, self.decoder
        self.norms = [
            make_final_norm(**layer) if stack else layers.Identity(**common) for stack in stacks
        ]
        count = 2 if options.norm else 0
        layer["norm_first"] = True  # for post-norm, `make_final_norm` returns an Identity
        self.embedding_norms = [make_final_norm(**layer) for _ in range(count)]
        untied = layers.Dense(target_vocabulary_size, use_bias=False, **common)
        self.vocabulary = untied if kind not in TIED_OUTPUTS else None
        self.build()

    def _make_absolute_positions(self, options: PositionOptions) -> list[Any]:
        """Return the positions that are added to the embeddings of source and target."""
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        has_encoder = self._read_num_layers()[0] > 0
        if options.max_length is not None:
            sides = has_encoder, True
            return [LearnedPositions(options.max_length, **common) if x else None for x in sides]
        if options.kind not in ABSOLUTE:
            return [None, None]
        is_interleaved = options.kind == SINUSOIDAL
        positions = SinusoidalPositions(interleaved=is_interleaved, **common)
        return [positions if has_encoder else None, positions]

    def _make_layers(self, options: PositionOptions) -> None:
        """Create the layers of the encoder and of the decoder."""
        settings, dtype = self.settings, self.dtype_policy
        width, num_heads = settings["embedding_dim"], settings["num_heads"]
        layer_options = {name: settings[name] for name in ("units", "num_heads", "dropout")}
        layer_options |= {**settings["layer"], "dtype": dtype}
        head_options = layer_options.pop("attention", {})
        self.encoder, self.decoder = list[Any](), list[Any]()
        stacks = self.encoder, self.decoder
        for stack, count in zip(stacks, self._read_num_layers(), strict=True):
            is_causal = stack is self.decoder
            layer_class = TransformerDecoderLayer if is_causal else TransformerEncoderLayer
            relative = None
            for _ in range(count):
                if relative is None or not options.shared:
                    relative = options.make_relative(dtype, is_causal)
                heads = make_self_attention(relative, num_heads, width, dtype=dtype, **head_options)
                stack.append(layer_class(attention=heads, **layer_options))

    def _check_settings(self) -> None:
        """Raise ValueError for invalid settings."""
        source_size, target_size = self.source_vocabulary_size, self.target_vocabulary_size
        check_vocabulary_size("source_vocabulary_size", source_size)
        check_vocabulary_size("target_vocabulary_size", target_size)
        known = (*LAYER_OPTIONS, "attention")
        layer = self.settings["layer"] = check_options("layer", self.settings["layer"], known)
        heads = check_options("layer.attention", layer.get("attention"), HEAD_OPTIONS)
        if "key_dim" not in heads:
            check_num_heads(self.settings)
        encoder_layers, decoder_layers = self._read_num_layers()
        whole_number("num_layers", decoder_layers)
        whole_number("num_layers", encoder_layers, 0)
        tie, _ = self._read_tie()
        check_choice("tie", tie, TIES)
        if tie in SHARED_EMBEDDINGS and source_size != target_size:
            raise ValueError(
                f"tie={tie!r} requires one vocabulary, got {source_size} source and {target_size} "
                "target tokens; use tie='target' for two"
            )

    def _read_num_layers(self) -> list[int]:
        """Return the numbers of layers of the encoder and of the decoder."""
        num_layers = self.settings["num_layers"]
        counts: list[int] = num_layers if isinstance(num_layers, list) else [num_layers] * 2
        if len(counts) != 2:
            raise ValueError(
                f"num_layers must be a number or two numbers, got {num_layers}; write"
                " [encoder layers, decoder layers], such as [6, 3]"
            )
        return counts

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
        absolute = [x for x in (self.source_positions, self.positions) if x is not None]
        for layer in (*absolute, *self.embedding_norms, *self.encoder, *self.norms):
            layer.build(shape)
        for layer in self.decoder:
            layer.build(shape, shape)
        if self.vocabulary is not None:
            self.vocabulary.build(shape)
        self.output_bias: Any = None
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
        x = self.source_embedding(source) * self.scale
        if self.source_positions is not None:
            x = self.source_positions(x)
        if self.embedding_norms:
            x = self.embedding_norms[0](x)
        return self.encode_embedded(x, mask, training)

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
        x = self.drop(self._embed_target(target), training=training)
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

    def _embed_target(self, tokens: Tensor, step: Any = None) -> Tensor:
        """Embed target tokens `(B, T)`, or `(B, N)` that all have the position `step`."""
        x = self.target_embedding(tokens) * self.scale
        if self.positions is not None and step is None:
            x = self.positions(x)
        elif self.positions is not None:
            zeros = ops.zeros((1, 1, x.shape[-1]), dtype=x.dtype)
            x = x + self.positions(zeros, start=step)
        return self.embedding_norms[1](x) if self.embedding_norms else x

    def get_max_target_lengths(self, source_lengths: Tensor) -> Tensor | None:
        """Return the number of learned positions, `(B,)`; None for other positions."""
        if self.max_length is None:
            return None
        return ops.full_like(source_lengths, self.max_length)

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
            x = self._embed_target(tokens, ancestors.step)
            for layer, entries, read in zip(
                self.decoder, state["cache"].value, memories, strict=True
            ):
                cache = KVCache(KeysAndValues(*entries), ancestors, self_attention_mask)
                x, cache, weights = layer.step(x, cache, read, mask)
                updated.append(cache.entries)
            x, state = self.norms[1](x), make_next_state(ancestors, updated)
            return StepOutput(self.projection(x).logits(), state, ops.mean(weights, axis=1), x)

        prompts = [None] * len(self.decoder)
        heads = self.decoder[0].attention
        state = make_empty_state(heads, prompts, ops.shape(mask)[0], width, max_steps)
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
