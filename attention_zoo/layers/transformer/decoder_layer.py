"""Transformer decoder layer."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.transformer.encoder_layer import (
    TransformerEncoderLayer,
    attend_cached,
    make_multi_head_attention,
    project_keys_and_values,
)
from attention_zoo.layers.transformer.kv_cache import KeysAndValues, KVCache
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class TransformerDecoderLayer(TransformerEncoderLayer):
    """Transformer decoder layer: causal self-attention, cross-attention, feed-forward network.

    `y = x + attend(norm(x))`, `c = y + attend_memory(norm(y), memory)`,
    `z = c + feed_forward(norm(c))`; without `norm_first`, the sums are normalized instead

    Args:
        units, num_heads, activation, norm, norm_first, epsilon: as in `TransformerEncoderLayer`.
        attention: the self-attention, as in `TransformerEncoderLayer`. The heads of the
            cross-attention have the same widths as those of a `MultiHeadAttention`, and biases only
            if it has them.
        dropout, stochastic_depth, seed: as in `TransformerEncoderLayer`.

    Call arguments:
        inputs: `(B, T, D)`.
        memory: `(B, S, Dm)`.
        mask, memory_mask: `(B, T)` and `(B, S)`, True at valid positions; combined by AND with the
            implicit Keras masks.
        use_causal_mask: whether position t attends only to positions 0 .. t.
        return_attention_scores: whether to also return the weights of both attentions.
        training: whether to apply dropout.

    Returns:
        `(B, T, D)`; on request the weights `(B, H, T, T)` and `(B, H, T, S)`, before dropout.

    Weights:
        Those of two attentions, the feed-forward network and three norms.

    Masking:
        A masked position gets weight exactly 0, its values do not affect the other outputs, and
        its own output is 0. If the memory is fully masked, the cross-attention adds 0. The mask is
        propagated.

    Cost:
        O(T D (D + F) + S D^2 + T (T + S) D) time, O(H T (T + S) + T F) memory; less memory for long
        sequences unless the weights are requested, see `MultiHeadAttention`.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import TransformerDecoderLayer
        >>> layer = TransformerDecoderLayer(units=16, num_heads=2)
        >>> memory = np.ones((2, 5, 8), "float32")
        >>> tuple(layer(np.ones((2, 3, 8), "float32"), memory).shape)
        (2, 3, 8)

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, section 3.1: d_model is D, d_ff is F, h is H.
    """

    def build(self, inputs_shape: Shape, memory_shape: Shape) -> None:  # type: ignore[override]
        zoo_ops.check_shape("memory", memory_shape, ("batch", "sources", "features"))
        super().build(inputs_shape)
        self.memory_residual = self.make_residual()
        self.memory_attention = make_multi_head_attention(self, self.width)
        self.memory_residual.build(inputs_shape)
        self.memory_attention.build(inputs_shape, memory_shape)

    def call(  # type: ignore[override]
        self,
        inputs: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        use_causal_mask: bool = True,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "steps", self.width))
        zoo_ops.check_shape("memory", memory.shape, ("batch", "sources", "features"))
        inputs = zoo_ops.repeat_to_mask_batch(inputs, mask)
        mask = zoo_ops.merge_masks("mask", mask, inputs)
        memory = zoo_ops.repeat_to_mask_batch(memory, memory_mask)
        memory_mask = zoo_ops.merge_masks("memory_mask", memory_mask, memory)
        x = zoo_ops.zero_masked(ops.cast(inputs, self.compute_dtype), mask)
        x, self_weights = self.attend(x, mask, use_causal_mask, return_attention_scores, training)
        context = self.memory_attention(
            self.memory_residual.prepare_input(x),
            memory,
            query_mask=mask,
            value_mask=memory_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        context, weights = context if return_attention_scores else (context, None)
        x = self.apply_feed_forward(self.memory_residual.add_output(x, context, training), training)
        x = zoo_ops.attach_mask(zoo_ops.zero_masked(x, mask), mask)
        return (x, self_weights, weights) if return_attention_scores else x

    # Decoding with a KV cache.

    def project_memory(self, memory: Tensor, mask: Tensor) -> KeysAndValues:
        """Project a memory `(B, S, Dm)` to keys and values for decoding; `mask` is `(B, S)`."""
        return project_keys_and_values(self.memory_attention, zoo_ops.zero_masked(memory, mask))

    def step(  # type: ignore[override]
        self, x: Tensor, cache: KVCache, memory: KeysAndValues, memory_mask: Tensor
    ) -> tuple[Tensor, KVCache, Tensor]:
        """Decode one token of each of N hypotheses.

        Args:
            x: `(B, N, D)`.
            cache: the KV cache of the prefix.
            memory: from `project_memory`.
            memory_mask: `(B, S)`.

        Returns:
            `(B, N, D)`, the updated cache, and the cross-attention weights `(B, H, N, S)`.
        """
        x, cache = self.attend_step(x, cache)
        query = self.memory_residual.prepare_input(x)
        mask = memory_mask[:, None, None]
        context, weights = attend_cached(self.memory_attention, query, memory, mask)
        x = self.memory_residual.add_output(x, context, False)
        return self.apply_feed_forward(x), cache, weights
