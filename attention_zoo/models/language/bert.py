"""BERT: a bidirectional Transformer encoder (Devlin et al. 2018)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import LearnedPositions, TransformerEncoderLayer
from attention_zoo.layers.positions.absolute import compute_positions
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.layers.transformer.residual import make_final_norm
from attention_zoo.models.prebuilt import PrebuiltModel, make_token_spec
from attention_zoo.models.presets import (
    Config,
    PresetMixin,
    add_presets,
    collect_arguments,
    is_preset,
    load_preset_as,
    register_model,
)
from attention_zoo.models.transformer_options import (
    LEARNED,
    check_layer_settings,
    check_length,
    make_self_attention,
    make_sizes,
    run_layers,
)
from attention_zoo.typing import Tensor

PAD = 0


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class BERT(PrebuiltModel):
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
        num_segments: number of segments; 0 for no segment embeddings G, as in DistilBERT.
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
        inputs: `{"tokens": (B, T)}` and optionally `"segments": (B, T)` (default 0; ignored
            with `num_segments=0`), integers. T is at most L.
        training: enables dropout.

    Returns:
        `{"hidden": (B, T, D), "pooled": (B, D)}`; pooled, with `use_pooler`, is computed from the
        first token.

    Masking:
        Padding (0) may be anywhere and does not affect other positions, at any depth: position
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
        self.settings = collect_arguments(locals())
        check_layer_settings(self.settings, LEARNED)
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        layer_options = {"dropout": dropout, **self.settings["layer"]}
        positions = layer_options.pop("positions", LEARNED)
        is_learned = positions == LEARNED
        initializer = partial(keras.initializers.TruncatedNormal, stddev=0.02)
        embed = partial(layers.Embedding, output_dim=embedding_dim, **common)
        self.token_embedding = embed(vocabulary_size, embeddings_initializer=initializer())
        self.segment_embedding: Any = None
        if num_segments:
            self.segment_embedding = embed(num_segments, embeddings_initializer=initializer())
        self.positions: Any = LearnedPositions(max_length, **common) if is_learned else None
        self.norm = make_final_norm(**{**layer_options, "norm_first": True}, **common)
        self.drop = Dropout(dropout, **common)
        self_attention = partial(
            make_self_attention, positions, num_heads, embedding_dim, dropout, **common
        )
        self.encoder = [
            TransformerEncoderLayer(units, num_heads, self_attention(), **layer_options, **common)
            for _ in range(num_layers)
        ]
        self.final_norm = make_final_norm(**layer_options, **common)
        self.pooler: Any = layers.Dense(embedding_dim, "tanh", **common) if use_pooler else None
        self.build()

    def build_layers(self) -> None:
        width = self.settings["embedding_dim"]
        for embedding in (self.token_embedding, self.segment_embedding):
            if embedding is not None:
                embedding.build((None, None))
        for layer in (self.positions, self.norm, *self.encoder, self.final_norm):
            if layer is not None:
                layer.build((None, None, width))
        if self.pooler is not None:
            self.pooler.build((None, width))

    @property
    def input_specs(self) -> dict[str, keras.InputSpec]:
        specs = {"tokens": make_token_spec("tokens")}
        if self.segment_embedding is None:
            return specs
        return {**specs, "segments": make_token_spec("segments", optional=True)}

    @property
    def layers_by_depth(self) -> list[list[keras.layers.Layer]]:
        embeddings = [self.token_embedding, self.segment_embedding, self.positions, self.norm]
        return [[x for x in embeddings if x is not None], *([layer] for layer in self.encoder)]

    # computation

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        tokens = ops.cast(inputs["tokens"], "int32")
        mask = ops.not_equal(tokens, PAD)
        x = self.norm(self.embed(tokens, mask, inputs.get("segments")))
        x = self.drop(x, training=training)
        positions = self.settings["layer"].get("positions", LEARNED)
        x = run_layers(self.encoder, x, mask, positions, training=training)
        hidden = zoo_ops.attach_mask(zoo_ops.zero_masked(self.final_norm(x), mask), mask)
        pooled = {} if self.pooler is None else {"pooled": self.pool(hidden, mask)}
        return {"hidden": hidden, **pooled}

    def embed(self, tokens: Tensor, mask: Tensor, segments: Tensor | None = None) -> Tensor:
        """Return the sum of the embeddings, `(B, T, D)`; NaN from position L on if T is dynamic.

        Raises:
            ValueError: the sequences are longer than `max_length`.
        """
        check_length(tokens, self.settings["max_length"])
        x = self.token_embedding(tokens)
        if self.segment_embedding is not None:
            segments = ops.zeros_like(tokens) if segments is None else ops.cast(segments, "int32")
            x = x + self.segment_embedding(segments)
        return x if self.positions is None else x + self.positions.embed(compute_positions(mask))

    def pool(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the pooled output `(B, D)` of the first token; 0 for rows without tokens."""
        first = ops.argmax(ops.cast(mask, "int32"), axis=1)
        first_hidden = ops.take_along_axis(hidden, first[:, None, None], axis=1)
        return zoo_ops.zero_masked(self.pooler(ops.squeeze(first_hidden, 1)), ops.any(mask, axis=1))


class BERTBackboneMixin(PresetMixin):
    """Mixin for models with an argument and attribute `bert`: a `BERT`, or its arguments."""

    backbone_name, backbone_fixed = "bert", ("use_pooler",)
    own_arguments: ClassVar[tuple[str, ...]] = ("name", "dtype")
    """Arguments of this model; all others of `from_preset` are the BERT's."""

    def make_bert(self, bert: Any) -> BERT:
        """Return the argument `bert` as a `BERT`, new ones with `use_pooler=False` by default."""
        if isinstance(bert, dict) and "class_name" in bert:
            bert = keras.saving.deserialize_keras_object(bert)
        if isinstance(bert, dict):
            dtype = self.dtype_policy  # type: ignore[attr-defined]
            bert = BERT(**{"use_pooler": False, **bert, "dtype": dtype})
        if not isinstance(bert, BERT):
            raise ValueError(f"bert must be a BERT or its arguments, got {bert!r}")
        return bert

    def get_config(self) -> Config:
        bert = keras.saving.serialize_keras_object(self.get_backbone())
        return {**super().get_config(), "bert": bert}

    @classmethod
    def from_preset(cls, name_or_folder: str | Path, **overrides: Any) -> Any:
        """Load a model of this class from a folder, or build one around a BERT preset.

        Args:
            name_or_folder: see `models.from_preset`.
            **overrides: arguments of this class (`own_arguments`); all others are the BERT's.
                `dtype` applies to the whole model.
        """
        own = {key: overrides.pop(key) for key in cls.own_arguments if key in overrides}
        if is_preset(name_or_folder):
            common = {"dtype": own["dtype"]} if "dtype" in own else {}
            bert = BERT.from_preset(name_or_folder, **{"use_pooler": False, **overrides}, **common)
            return cls(bert, **own)  # type: ignore[call-arg]
        changes = {"bert": overrides} if overrides else {}
        return load_preset_as(cls, name_or_folder, **changes, **own)


# config

RELEASED_LAYER_OPTIONS = {"norm_first": False, "activation": "gelu", "epsilon": 1e-12}
"""Layer options of the released models."""

add_presets(
    BERT,
    # The sizes of Turc et al. 2019, arXiv 1908.08962, table 1.
    bert_tiny=Config(**make_sizes(128, 2), layer=RELEASED_LAYER_OPTIONS),
    bert_mini=Config(**make_sizes(256, 4), layer=RELEASED_LAYER_OPTIONS),
    bert_small=Config(**make_sizes(512, 4), layer=RELEASED_LAYER_OPTIONS),
    bert_medium=Config(**make_sizes(512, 8), layer=RELEASED_LAYER_OPTIONS),
    # The sizes of Devlin et al. 2018, section 3, "base" and "large".
    bert_base=Config(**make_sizes(768, 12), layer=RELEASED_LAYER_OPTIONS),
    bert_large=Config(**make_sizes(1024, 24), layer=RELEASED_LAYER_OPTIONS),
)
