"""GPT: a decoder-only Transformer language model (Radford et al. 2018 and 2019)."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.decoding import SearchOptions, StepOutput
from attention_zoo.decoding.plan import get_static_value
from attention_zoo.layers import LearnedPositions, TransformerEncoderLayer
from attention_zoo.layers.positions.absolute import compute_positions
from attention_zoo.layers.quantization import get_float_embeddings
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.layers.transformer.kv_cache import Ancestors, KeysAndValues, KVCache
from attention_zoo.layers.transformer.residual import make_final_norm
from attention_zoo.models.caching import make_empty_state, make_next_state
from attention_zoo.models.generation import (
    PAD,
    START,
    DecoderStart,
    GenerationMixin,
    check_vocabulary_size,
    mask_special_tokens,
)
from attention_zoo.models.prebuilt import PrebuiltModel, make_token_spec
from attention_zoo.models.presets import (
    Config,
    add_presets,
    collect_arguments,
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

DEFAULT_LAYER_OPTIONS = {"activation": "gelu_tanh", "epsilon": 1e-5}
"""Default layer options, as in the released models."""


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class GPT(GenerationMixin, PrebuiltModel):
    """Language model: a stack of causal self-attention layers that predicts the next token.

    `x = E[tokens] + p`, `logits = norm(layers(x)) E^T`

    `search` continues prompts: its source `(B, S)` is the prompt, which is encoded in one pass, and
    its targets are the continuations.

    Args:
        vocabulary_size: V, including the 4 special tokens.
        embedding_dim: D, width of the embeddings and of all layers.
        units: F, width of the feed-forward networks.
        num_heads: H; D / H is the width of a head.
        num_layers: N.
        max_length: L, maximum sequence length.
        layer: arguments of `layers.TransformerEncoderLayer` for every layer: any of "activation"
            (default "gelu_tanh"), "norm", "norm_first" (True, the default: pre-norm as in GPT-2,
            with a norm after the last layer; False: post-norm as in GPT-1), "epsilon" (default
            1e-5) and "stochastic_depth".
        dropout: dropout rate on embeddings, attention weights and sublayers.
        positions: "learned": p is P[positions], as in the papers; or a name of `layers.POSITIONS`
            ("rotary", "alibi", "t5", "shaw"): relative positions in the self-attention, p is 0; or
            "none": only the causal mask encodes the order.

    Call arguments:
        inputs: `{"tokens": (B, T)}`, integers that begin with 2; T at most L.
        training: enables dropout.
        project: if False, return the `ops.Projection` that computes the logits.

    Returns:
        Logits `(B, T, V)` of the tokens after each token.

    Masking:
        Padding (0) may be anywhere and does not affect other positions, at any depth: position
        indices count tokens only. Logits do not depend on later tokens.

    Reference:
        Radford et al. 2018, "Improving language understanding by generative pre-training", section
        3.1 (W_e is E, W_p is P); Radford et al. 2019, "Language models are unsupervised multitask
        learners", section 2.3 and table 2. Kernels use Keras's default initializers, not a normal
        of stddev 0.02 that is scaled down with depth. As released, W is E transposed.
    """

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
        positions: str = LEARNED,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target_vocabulary_size = self.source_vocabulary_size = vocabulary_size
        self.settings = collect_arguments(locals())
        check_vocabulary_size("vocabulary_size", vocabulary_size)
        check_layer_settings(self.settings, LEARNED)
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        layer_options = {**DEFAULT_LAYER_OPTIONS, "dropout": dropout, **self.settings["layer"]}
        normal = keras.initializers.RandomNormal(stddev=0.02)
        self.token_embedding = layers.Embedding(vocabulary_size, embedding_dim, normal, **common)
        is_learned = positions == LEARNED
        self.positions: Any = LearnedPositions(max_length, **common) if is_learned else None
        self.drop = Dropout(dropout, **common)
        self_attention = partial(
            make_self_attention, positions, num_heads, embedding_dim, dropout, causal=True, **common
        )
        self.decoder = [
            TransformerEncoderLayer(units, num_heads, self_attention(), **layer_options, **common)
            for _ in range(num_layers)
        ]
        self.norm = make_final_norm(**layer_options, **common)
        self.build()

    def build_layers(self) -> None:
        shape = (None, None, self.settings["embedding_dim"])
        self.token_embedding.build((None, None))
        for layer in (self.positions, *self.decoder, self.norm):
            if layer is not None:
                layer.build(shape)

    @property
    def input_specs(self) -> dict[str, keras.InputSpec]:
        return {"tokens": make_token_spec("tokens")}

    @property
    def layers_by_depth(self) -> list[list[keras.layers.Layer]]:
        embeddings = [self.token_embedding, self.positions]
        return [[x for x in embeddings if x is not None], *([layer] for layer in self.decoder)]

    # computation

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, project: bool = True
    ) -> Any:
        tokens = ops.cast(inputs["tokens"], "int32")
        check_length(tokens, self.settings["max_length"])
        mask = ops.not_equal(tokens, PAD)
        x = self.drop(self._embed(tokens, compute_positions(mask)), training=training)
        options = {"use_causal_mask": True, "training": training}
        x = run_layers(self.decoder, x, mask, self.settings["positions"], **options)
        projection = self.projection(self.norm(x))
        return projection.logits() if project else projection

    def projection(self, hidden: Tensor) -> zoo_ops.Projection:
        """Return the output projection of normalized hidden states; its logits are `(..., V)`."""
        return zoo_ops.Projection(hidden, ops.transpose(get_float_embeddings(self.token_embedding)))

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x = self.token_embedding(tokens)
        return x if self.positions is None else x + self.positions.embed(positions)

    def start_decoding(self, source: Tensor, width: int, max_steps: Any) -> DecoderStart:
        """Encode the prompts `source (B, S)` and return the step function and initial state.

        The last token of a prompt (2 if it is empty) is not encoded: the first step takes it.
        """
        order = zoo_ops.to_end(ops.not_equal(source, PAD))
        source = ops.pad(ops.take_along_axis(source, order, axis=1), ((0, 0), (1, 0)))
        prompt, last = source[:, :-1], source[:, -1]
        start = ops.where(last == PAD, START, last)
        prompt_mask = ops.not_equal(prompt, PAD)
        positions = compute_positions(prompt_mask)
        prompt_lengths = ops.sum(ops.cast(prompt_mask, "int32"), axis=1)
        prompt_cache = self._prefill(prompt, positions, prompt_mask)
        last_position = self.settings["max_length"] - 1  # finished sources may exceed it

        def step(tokens: Tensor, state: dict[str, Any]) -> StepOutput:
            length = ops.shape(prompt)[1]
            ancestors = Ancestors(state["num_steps"], state["parents"], width, length)
            ancestors = ancestors.add_current_step()
            mask = _concatenate_masks(prompt_mask, ancestors.make_mask())
            positions = ops.minimum(prompt_lengths + ancestors.step, last_position)
            updated, x = [], self._embed(tokens, positions[:, None])
            for layer, entries in zip(self.decoder, state["cache"].value, strict=True):
                cache = KVCache(KeysAndValues(*entries), ancestors, mask)
                x, cache = layer.step(x, cache)
                updated.append(cache.entries)
            x = self.norm(x)
            logits = mask_special_tokens(self.projection(x).logits())
            return StepOutput(logits, make_next_state(ancestors, updated), hidden=x)

        heads = self.decoder[0].attention
        state = make_empty_state(heads, prompt_cache, ops.shape(source)[0], width, max_steps)
        return DecoderStart(step, state, start)

    def _prefill(self, tokens: Tensor, positions: Tensor, mask: Tensor) -> list[KeysAndValues]:
        """Return the keys and values of tokens `(B, S)` in every layer."""
        x, prompt_cache = self._embed(tokens, positions), []
        for layer in self.decoder:
            x, entries = layer.prefill(x, mask)
            prompt_cache.append(entries)
        return prompt_cache

    def get_max_target_lengths(self, source_lengths: Tensor) -> Tensor:
        """Return how many tokens, `(B,)`, can follow prompts of lengths `(B,)`.

        The last one needs no position.
        """
        return self.settings["max_length"] + 1 - ops.maximum(source_lengths, 1)

    def check_search(self, source: Tensor, options: SearchOptions) -> None:
        """Raise ValueError if a prompt leaves too few of the model's positions."""
        super().check_search(source, options)
        ids = get_static_value(source)
        if ids is not None and ids.size:
            longest = max(int((ids != PAD).sum(axis=1).max()), 1)
            self.check_positions("a prompt", longest, options)

    def check_positions(self, name: str, length: int, options: SearchOptions) -> None:
        """Raise ValueError if a prompt of this length leaves too few of the model's positions.

        Without `max_length` and `max_length_ratio`, a continuation has at most as many tokens as
        there are positions left. Otherwise it must be able to reach the limit.
        """
        if self.leaves_positions(length, options):
            return
        is_limited = options.max_length is not None or options.max_length_ratio is not None
        kind = "may" if is_limited else "must"
        needed, max_length = _get_needed_tokens(length, options), self.settings["max_length"]
        raise ValueError(
            f"{name} has {length} tokens and its continuation {kind} have {needed}, but "
            f"the model has max_length={max_length}; shorten the prompt, or set max_length and "
            f"min_length of the search to at most {max(max_length - length + 1, 0)}."
        )

    def leaves_positions(self, length: int, options: SearchOptions) -> bool:
        """Return whether a prompt of this length leaves the positions that the search may need."""
        needed = _get_needed_tokens(length, options)
        return needed is None or length + needed - 1 <= self.settings["max_length"]


def _get_needed_tokens(length: int, options: SearchOptions) -> int | None:
    """Return the maximum length of the continuation or, without a limit, its minimum length.

    None if the length is not a static value.
    """
    is_limited = options.max_length is not None or options.max_length_ratio is not None
    needed = options.limit(length) if is_limited else options.min_target_length
    value = get_static_value(needed)
    return None if value is None else int(value)


def _concatenate_masks(prompt_mask: Tensor, generated_mask: Tensor) -> Tensor:
    """Concatenate the masks of prompt `(B, P)` and generated tokens: `(B, 1, N, P + S)`."""
    shape = (*ops.shape(generated_mask)[:3], ops.shape(prompt_mask)[1])
    repeated = ops.broadcast_to(prompt_mask[:, None, None], shape)
    return ops.concatenate([repeated, generated_mask], axis=-1)


# config

add_presets(
    GPT,
    # The sizes of Radford et al. 2018, section 4.1: post-norm, maximum length 512.
    gpt_base=Config(**make_sizes(768, 12), max_length=512, layer={"norm_first": False}),
    # The sizes of Radford et al. 2019, table 2.
    gpt2_small=make_sizes(768, 12),
    gpt2_medium=make_sizes(1024, 24),
    gpt2_large=make_sizes(1280, 36),
    gpt2_xl=make_sizes(1600, 48),
    # Sizes for small data and a CPU; not the paper's.
    gpt_small=Config(**make_sizes(256, 4), max_length=512),
    # Sizes for tests and toy data; not the paper's.
    gpt_tiny=Config(embedding_dim=128, units=512, num_heads=4, num_layers=2, max_length=256),
)
