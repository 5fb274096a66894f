"""Transformer encoder layer, also used in decoder-only models."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.multi_head_attention import MultiHeadAttention
from attention_zoo.layers.attention.self_attention import SelfAttentionBase
from attention_zoo.layers.attention.weights_hooks import run_weights_hooks
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.layers.transformer.feed_forward import FeedForward
from attention_zoo.layers.transformer.kv_cache import Ancestors, KeysAndValues, KVCache
from attention_zoo.layers.transformer.residual import Residual
from attention_zoo.registry import check_known
from attention_zoo.typing import Shape, Tensor

LAYER_OPTIONS = ("activation", "norm", "norm_first", "epsilon", "stochastic_depth")
"""Arguments of this layer that a model accepts in its `layer` argument."""
FEED_FORWARD_OPTIONS = ("activation", "use_bias", "dropout")
"""Arguments of `FeedForward` in an `activation` that is a dict."""


@keras.saving.register_keras_serializable("attention_zoo")
class TransformerEncoderLayer(KernelLayer):
    """Transformer encoder layer: self-attention and feed-forward sublayers, each with a residual.

    `y = x + attend(norm(x))`, `z = y + feed_forward(norm(y))` with `norm_first`, else
    `y = norm(x + attend(x))`, `z = norm(y + feed_forward(y))`

    Args:
        units: F, width of the feed-forward network.
        num_heads: H, number of attention heads; the width of a head is D / H.
        attention: attention layer that replaces `MultiHeadAttention(H, D / H)`, for example one
            with relative positions or dropout on the weights; it takes `(query, value)` and
            returns `(B, T, D)`.
        activation: activation of the feed-forward network, see `FeedForward`; or a dict of
            arguments of `FeedForward`: "activation", "use_bias" and "dropout".
        norm: "layer" or "rms".
        norm_first: whether to use pre-norm; if False, post-norm as in the paper.
        epsilon: epsilon of the normalization layers.
        dropout: dropout rate on the outputs of both sublayers, in training.
        stochastic_depth: probability of skipping a sublayer, per sequence, in training.
        seed: random seed of dropout and stochastic depth, an integer or None.

    Call arguments:
        inputs: `(B, T, D)`.
        mask: `(B, T)`, True at valid positions; combined by AND with the implicit Keras mask.
        use_causal_mask: whether position t attends only to positions 0 .. t.
        return_attention_scores: whether to also return the attention weights.
        training: whether to apply dropout and stochastic depth.

    Returns:
        `(B, T, D)`; if requested, also the attention weights `(B, H, T, T)`, before dropout.

    Weights:
        Those of the attention, the feed-forward network and two normalization layers.

    Masking:
        A masked position gets weight exactly 0, its values do not affect the other outputs, and
        its own output is 0. The mask is propagated through any number of stacked layers.

    Cost:
        O(T D (D + F) + T^2 D) time, O(H T^2 + T F) memory. Long sequences need less memory if the
        attention weights are not requested; see `MultiHeadAttention`.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import TransformerEncoderLayer
        >>> layer = TransformerEncoderLayer(units=16, num_heads=2)
        >>> tuple(layer(np.ones((2, 3, 8), "float32")).shape)
        (2, 3, 8)

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, section 3.1: d_model is D, d_ff is F, h is H.
    """

    def __init__(
        self,
        units: int,
        num_heads: int = 8,
        attention: Any = None,
        activation: Any = "relu",
        norm: str = "layer",
        norm_first: bool = True,
        epsilon: float = 1e-6,
        dropout: float = 0.0,
        stochastic_depth: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = zoo_ops.whole_number("units", units)
        self.num_heads = zoo_ops.whole_number("num_heads", num_heads)
        self.activation, self.seed = activation, seed
        self.norm, self.norm_first, self.epsilon = norm, norm_first, epsilon
        self.dropout, self.stochastic_depth = dropout, stochastic_depth
        self.attention_residual = self.make_residual()
        self.feed_forward_residual = self.make_residual()
        feed_forward = activation if isinstance(activation, dict) else {"activation": activation}
        check_known("activation has no option", feed_forward, FEED_FORWARD_OPTIONS)
        options = {"activation": "relu", **feed_forward, "seed": seed, **self.part_arguments}
        self.feed_forward = FeedForward(self.units, **options)
        self.attention = attention
        self._is_default_attention = attention is None
        self.supports_masking = True

    def make_residual(self) -> Residual:
        """Create the residual connection of a sublayer."""
        options = (self.norm, self.norm_first, self.epsilon, self.dropout, self.stochastic_depth)
        return Residual(*options, self.seed, dtype=self.dtype_policy)

    def build(self, inputs_shape: Shape) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "steps", "features"))
        self.width = inputs_shape[-1]
        if self.attention is None:
            self.attention = make_multi_head_attention(self, self.width)
        if not self.attention.built:
            count = 1 if isinstance(self.attention, SelfAttentionBase) else 2
            self.attention.build(*[inputs_shape] * count)
        self.attention_residual.build(inputs_shape)
        self.feed_forward_residual.build(inputs_shape)
        self.feed_forward.build(inputs_shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "steps", self.width))
        inputs = zoo_ops.repeat_to_mask_batch(inputs, mask)
        mask = zoo_ops.merge_masks("mask", mask, inputs)
        x = zoo_ops.zero_masked(ops.cast(inputs, self.compute_dtype), mask)
        x, weights = self.attend(x, mask, use_causal_mask, return_attention_scores, training)
        x = zoo_ops.zero_masked(self.apply_feed_forward(x, training), mask)
        x = zoo_ops.attach_mask(x, mask)
        return (x, weights) if return_attention_scores else x

    def attend(
        self,
        x: Tensor,
        mask: Tensor | None,
        use_causal_mask: bool,
        return_weights: bool,
        training: bool | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Apply the self-attention sublayer with its residual; return its weights on request."""
        normalized = self.attention_residual.prepare_input(x)
        options: dict[str, Any] = {
            "use_causal_mask": use_causal_mask,
            "return_attention_scores": return_weights,
            "training": training,
        }
        if isinstance(self.attention, SelfAttentionBase):
            attended = self.attention(normalized, mask=mask, **options)
        else:
            masks = {"query_mask": mask, "value_mask": mask}
            attended = self.attention(normalized, normalized, **masks, **options)
        attended, weights = attended if return_weights else (attended, None)
        return self.attention_residual.add_output(x, attended, training), weights

    def apply_feed_forward(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Apply the feed-forward sublayer with its residual."""
        y = self.feed_forward(self.feed_forward_residual.prepare_input(x), training=training)
        return self.feed_forward_residual.add_output(x, y, training)

    # Decoding with a KV cache.

    def prefill(self, x: Tensor, mask: Tensor) -> tuple[Tensor, KeysAndValues]:
        """Apply the layer with a causal mask to a whole prefix, to fill the KV cache at inference.

        Args:
            x: `(B, T, D)`.
            mask: `(B, T)`, the padding mask.

        Returns:
            `(B, T, D)`, and the keys and values of the prefix.
        """
        x = zoo_ops.zero_masked(ops.cast(x, self.compute_dtype), mask)
        inputs = zoo_ops.zero_masked(self.attention_residual.prepare_input(x), mask)
        cached = project_keys_and_values(self.attention, inputs)
        x, _ = self.attend(x, mask, True, False, False)
        return zoo_ops.zero_masked(self.apply_feed_forward(x), mask), cached

    def step(self, x: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
        """Apply the layer in one decoding step, to one token of each of N hypotheses.

        Args:
            x: `(B, N, D)`.
            cache: the KV cache of the previous positions.

        Returns:
            `(B, N, D)`, and the updated cache.
        """
        x, cache = self.attend_step(x, cache)
        return self.apply_feed_forward(x), cache

    def attend_step(self, x: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
        """Apply the self-attention sublayer in one decoding step, and update the KV cache."""
        query, ancestors = self.attention_residual.prepare_input(x), cache.ancestors
        cache = cache.write(project_keys_and_values(self.attention, query, ancestors))
        attended = cache.apply_to_bucket(
            lambda cached, mask: attend_cached(self.attention, query, cached, mask, ancestors)[0]
        )
        return self.attention_residual.add_output(x, attended, False), cache

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "attention": None} if self._is_default_attention else config


def make_multi_head_attention(layer: Any, width: int) -> MultiHeadAttention:
    """Create the multi-head attention of a layer.

    If the self-attention of the layer exists and is a `MultiHeadAttention`, the heads have its
    widths, and biases only if it has them.

    Raises:
        ValueError: num_heads does not divide the width of the inputs.
    """
    count, self_attention = layer.num_heads, layer.attention
    if isinstance(self_attention, MultiHeadAttention):
        options = {
            name: getattr(self_attention, name) for name in ("key_dim", "value_dim", "use_bias")
        }
        return MultiHeadAttention(count, **options, **layer.part_arguments)
    if width % count:
        raise ValueError(f"num_heads must divide the width of the inputs, got {count} for {width}")
    return MultiHeadAttention(count, width // count, **layer.part_arguments)


def project_keys_and_values(
    heads: MultiHeadAttention, x: Tensor, ancestors: Ancestors | None = None
) -> KeysAndValues:
    """Project `x (B, S, D)` to keys and values, as the KV cache stores them.

    Args:
        ancestors: ancestors of the hypotheses in a decoding step; all of `x` then has the current
            token's position. If None, `x` has the positions 0 .. S-1.
    """
    if isinstance(heads, SelfAttentionBase):
        raise ValueError(
            f"decoding with a KV cache needs a MultiHeadAttention, got {type(heads).__name__}; "
            "call the layer on the whole sequence instead"
        )
    position = None if ancestors is None or heads.positions is None else ancestors.position[None]
    memory = heads.prepare(x, positions=position)
    return KeysAndValues(ops.transpose(memory.keys, (0, 1, 3, 2)), memory.values)


def attend_cached(
    heads: MultiHeadAttention,
    x: Tensor,
    cached: KeysAndValues,
    mask: Tensor,
    ancestors: Ancestors | None = None,
) -> tuple[Tensor, Tensor]:
    """Attend from `x (B, N, D)` to cached keys and values; `mask` broadcasts to `(B, H, N, S)`.

    Args:
        ancestors: ancestors of the hypotheses in the cache; used only with relative positions.

    Returns:
        `(B, N, D)`, 0 in fully masked rows, and the weights `(B, H, N, S)`.
    """
    positions: Any = heads.positions
    relative = None if positions is None else ancestors
    query = heads.project_query(x, None if relative is None else relative.position[None])
    scores = ops.matmul(query * heads.key_dim**-0.5, cached.keys)
    if relative is not None:
        distances = relative.distances(ops.shape(cached.values)[-2])
        bias = positions.bias_at(query, distances)
        scores = scores if bias is None else zoo_ops.at_least_float32(scores) + bias
    weights = zoo_ops.masked_softmax(scores, mask)
    context = ops.matmul(ops.cast(weights, cached.values.dtype), cached.values)
    context = run_weights_hooks(heads, weights, mask, context)
    if relative is not None:
        offset = positions.offset_at(weights, distances)
        context = context if offset is None else context + ops.cast(offset, context.dtype)
    return heads.project_output(context, x, ops.any(mask, axis=-1, keepdims=True)), weights
