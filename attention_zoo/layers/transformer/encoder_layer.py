"""Transformer encoder layer, also used in decoder-only models."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.multi_head_attention import MultiHeadAttention
from attention_zoo.layers.transformer.feed_forward import FeedForward
from attention_zoo.layers.transformer.kv_cache import Ancestors, Cache, KeysAndValues
from attention_zoo.layers.transformer.residual import Residual
from attention_zoo.registry import did_you_mean
from attention_zoo.typing import Shape, Tensor

STYLE = ("activation", "norm", "norm_first", "epsilon", "stochastic_depth")
"""Arguments of this layer that a model accepts in its `layer` argument."""


@keras.saving.register_keras_serializable("attention_zoo")
class TransformerEncoderLayer(keras.layers.Layer):
    """Transformer encoder layer: self-attention and feed-forward sublayers, each with a residual.

    `y = x + attend(norm(x))`, `z = y + feed_forward(norm(y))` with `norm_first`, else
    `y = norm(x + attend(x))`, `z = norm(y + feed_forward(y))`

    Args:
        units: F, width of the feed-forward network.
        num_heads: H, number of attention heads; the width of a head is D / H.
        attention: attention layer that replaces `MultiHeadAttention(H, D / H)`, for example one
            with relative positions or dropout on the weights; it takes `(query, value)` and
            returns `(B, T, D)`.
        activation: activation of the feed-forward network, see `FeedForward`.
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
        if isinstance(attention, dict):
            attention = keras.saving.deserialize_keras_object(attention)
        self.units = zoo_ops.whole_number("units", units)
        self.num_heads = zoo_ops.whole_number("num_heads", num_heads)
        own: dict[str, Any] = {"seed": seed, "dtype": self.dtype_policy}
        around: dict[str, Any] = {
            "norm": norm,
            "norm_first": norm_first,
            "epsilon": epsilon,
            "dropout": dropout,
        }
        around |= {"stochastic_depth": stochastic_depth}
        self._around = around
        self.around_attention, self.around_feed_forward = (
            Residual(**around, **own) for _ in range(2)
        )
        self.feed_forward = FeedForward(self.units, activation, **own)
        self.attention = attention
        self._given = {
            "units": self.units,
            "num_heads": self.num_heads,
            "activation": self.feed_forward.get_config()["activation"],
            **around,
            "seed": seed,
        }
        self._own_attention = attention is None
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "steps", "features"))
        self.width = inputs_shape[-1]
        if self.attention is None:
            self.attention = heads(self, self.width)
        if not self.attention.built:
            self.attention.build(inputs_shape, inputs_shape)
        self.around_attention.build(inputs_shape)
        self.around_feed_forward.build(inputs_shape)
        self.feed_forward.build(inputs_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "steps", self.width))
        mask = zoo_ops.merge_masks("mask", mask, inputs)
        x = zoo_ops.zero_masked(ops.cast(inputs, self.compute_dtype), mask)
        x, weights = self.attend(x, mask, use_causal_mask, return_attention_scores, training)
        x = zoo_ops.pass_mask_on(zoo_ops.zero_masked(self.work(x, training), mask), mask)
        return (x, weights) if return_attention_scores else x

    def attend(
        self,
        x: Tensor,
        mask: Tensor | None,
        use_causal_mask: bool,
        seen: bool,
        training: bool | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Apply the self-attention sublayer with its residual; return the weights too if `seen`."""
        read = self.around_attention.before(x)
        attended = self.attention(
            read,
            read,
            query_mask=mask,
            value_mask=mask,
            use_causal_mask=use_causal_mask,
            return_attention_scores=seen,
            training=training,
        )
        attended, weights = attended if seen else (attended, None)
        return self.around_attention.after(x, attended, training), weights

    def work(self, x: Tensor, training: bool | None = None) -> Tensor:
        """Apply the feed-forward sublayer with its residual."""
        y = self.feed_forward(self.around_feed_forward.before(x), training=training)
        return self.around_feed_forward.after(x, y, training)

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
        kept = keys_and_values(
            self.attention, zoo_ops.zero_masked(self.around_attention.before(x), mask)
        )
        x, _ = self.attend(x, mask, True, False, False)
        return zoo_ops.zero_masked(self.work(x), mask), kept

    def step(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Apply the layer in one decoding step, to one token of each of N hypotheses.

        Args:
            x: `(B, N, D)`.
            cache: the KV cache of the previous positions.

        Returns:
            `(B, N, D)`, and the updated cache.
        """
        x, cache = self.attend_step(x, cache)
        return self.work(x), cache

    def attend_step(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Apply the self-attention sublayer in one decoding step, and update the KV cache."""
        read, written = self.around_attention.before(x), cache.ancestors
        cache = cache.write(keys_and_values(self.attention, read, written))
        attended = cache.apply_to_bucket(
            lambda at, seen: attend_cached(self.attention, read, at, seen, written)[0]
        )
        return self.around_attention.after(x, attended, False), cache

    def get_config(self) -> dict[str, Any]:
        given = None if self._own_attention else self.attention
        config = {**self._given, "attention": keras.saving.serialize_keras_object(given)}
        return {**super().get_config(), **config}


def heads(layer: Any, width: int) -> MultiHeadAttention:
    """Create the multi-head attention of a layer; ValueError unless num_heads divides the width."""
    count = layer.num_heads
    if width % count:
        raise ValueError(f"num_heads must divide the width of the inputs, got {count} for {width}")
    return MultiHeadAttention(count, width // count, dtype=layer.dtype_policy)


def check_style(style: dict[str, Any], more: tuple[str, ...] = ()) -> None:
    """Raise ValueError for arguments that a model's `layer` does not accept.

    Args:
        style: the value of `layer`, arguments by name.
        more: names that the model accepts in addition to `STYLE`.
    """
    known = (*STYLE, *more)
    for name in style:
        if name not in known:
            raise ValueError(
                f"layer has no option {name!r}{did_you_mean(name, known)}"
                f" (known: {', '.join(known)})"
            )


def keys_and_values(
    heads: MultiHeadAttention, x: Tensor, written: Ancestors | None = None
) -> KeysAndValues:
    """Project `x (B, S, D)` to keys and values, as the KV cache stores them.

    Args:
        written: ancestors of the hypotheses in a decoding step; all of `x` then has the current
            token's position. If None, `x` has the positions 0 .. S-1.
    """
    place = None if written is None or heads.positions is None else written.place[None]
    memory = heads.prepare(x, positions=place)
    return KeysAndValues(ops.transpose(memory.keys, (0, 1, 3, 2)), memory.values)


def attend_cached(
    heads: MultiHeadAttention,
    x: Tensor,
    at: KeysAndValues,
    mask: Tensor,
    written: Ancestors | None = None,
) -> tuple[Tensor, Tensor]:
    """Attend from `x (B, N, D)` to cached keys and values; `mask` broadcasts to `(B, H, N, S)`.

    Args:
        written: ancestors of the hypotheses in the cache; used only with relative positions.

    Returns:
        `(B, N, D)`, 0 in fully masked rows, and the weights `(B, H, N, S)`.
    """
    positions: Any = heads.positions
    here = None if positions is None else written
    query = heads.project_query(x, None if here is None else here.place[None])
    scores = ops.matmul(query * heads.key_dim**-0.5, at.keys)
    if here is not None:
        distances = here.distances(ops.shape(at.values)[-2])
        bias = positions.bias_at(query, distances)
        scores = scores if bias is None else zoo_ops.at_least_float32(scores) + bias
    weights = zoo_ops.masked_softmax(scores, mask)
    context = ops.matmul(ops.cast(weights, at.values.dtype), at.values)
    if here is not None:
        offset = positions.offset_at(weights, distances)
        context = context if offset is None else context + ops.cast(offset, context.dtype)
    return heads.project_output(context, x, ops.any(mask, axis=-1, keepdims=True)), weights
