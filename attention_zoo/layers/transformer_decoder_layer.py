"""One layer of a Transformer decoder: what was written, what was read, and what to make of it."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.kv_cache import Cache, KeysAndValues
from attention_zoo.layers.residual import Residual
from attention_zoo.layers.transformer_encoder_layer import (
    TransformerEncoderLayer,
    heads,
    keys_and_values,
    look,
)

Tensor = Any
Shape = tuple[Any, ...]


@keras.saving.register_keras_serializable("attention_zoo")
class TransformerDecoderLayer(TransformerEncoderLayer):
    """Causal self-attention, attention at a memory and a feed-forward network.

    `y = x + attend(norm(x))`, `c = y + attend_memory(norm(y), memory)`,
    `z = c + feed_forward(norm(c))`; without `norm_first` sums are normalised instead

    Args:
        units, num_heads, attention, activation, norm, norm_first, epsilon, dropout,
            stochastic_depth, seed: as in `TransformerEncoderLayer`; `attention` is the
            self-attention.

    Call arguments:
        inputs: `(B, T, D)`.
        memory: `(B, S, Dm)`.
        mask, memory_mask: `(B, T)` and `(B, S)`, True where there is something; ANDed with the
            masks that Keras carries.
        use_causal_mask: position t sees the positions 0 .. t only.
        return_attention_scores: also return the weights of both attentions.
        training: switches dropout on.

    Returns:
        `(B, T, D)`; on request the weights `(B, H, T, T)` and `(B, H, T, S)`, before dropout.

    Weights:
        Those of two attentions, the feed-forward network and three norms.

    Masking:
        A hidden position weighs exactly 0, what stands there reaches nothing, and its own output
        is 0. Where the memory has nothing, its attention adds 0. The mask goes on.

    Cost:
        O(T D (D + F) + S D^2 + T (T + S) D) time, O(H T (T + S) + T F) memory; less of long
        sequences whose weights nobody asks for, see `MultiHeadAttention`.

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
        own: dict[str, Any] = {"seed": self._given["seed"], "dtype": self.dtype_policy}
        super().build(inputs_shape)
        self.around_memory = Residual(**self._around, **own)
        self.memory_attention = heads(self, self.width)
        self.around_memory.build(inputs_shape)
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
        mask = zoo_ops.merge_masks("mask", mask, inputs)
        memory_mask = zoo_ops.merge_masks("memory_mask", memory_mask, memory)
        x = zoo_ops.zero_masked(ops.cast(inputs, self.compute_dtype), mask)
        x, own = self.attend(x, mask, use_causal_mask, return_attention_scores, training)
        looked = self.memory_attention(
            self.around_memory.before(x),
            memory,
            query_mask=mask,
            value_mask=memory_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        looked, weights = looked if return_attention_scores else (looked, None)
        x = self.work(self.around_memory.after(x, looked, training), training)
        x = zoo_ops.pass_mask_on(zoo_ops.zero_masked(x, mask), mask)
        return (x, own, weights) if return_attention_scores else x

    # step by step

    def read(self, memory: Tensor, mask: Tensor) -> KeysAndValues:
        """What the steps of a search look at of a memory `(B, S, Dm)`, masked by `(B, S)`."""
        return keys_and_values(self.memory_attention, zoo_ops.zero_masked(memory, mask))

    def step(  # type: ignore[override]
        self, x: Tensor, cache: Cache, memory: KeysAndValues, memory_mask: Tensor
    ) -> tuple[Tensor, Cache, Tensor]:
        """The next token of N hypotheses.

        Args:
            x: `(B, N, D)`.
            cache: the keys and values of what was written.
            memory: from `read`.
            memory_mask: `(B, S)`.

        Returns:
            `(B, N, D)`, the cache with this step, and the weights `(B, H, N, S)` at the memory.
        """
        x, cache = self.look_back(x, cache)
        read = self.around_memory.before(x)
        looked, weights = look(self.memory_attention, read, memory, memory_mask[:, None, None])
        x = self.around_memory.after(x, looked, False)
        return self.work(x), cache, weights
