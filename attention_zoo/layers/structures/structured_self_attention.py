"""Structured self-attention: pooling of a sequence to several vectors."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.ops.alignment_penalties import diversity
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class StructuredSelfAttention(KernelLayer):
    """Structured self-attention: attention pooling with several learned queries.

    `A = softmax(W2 tanh(W1 H^T))`, `M = A H`; adds the loss `penalty ||A A^T - I||_F^2`

    The loss makes the queries attend to different positions.

    Use it for several vectors per text, one for each aspect.

    Args:
        units: A, number of hidden units.
        hops: r, number of learned queries (attention hops).
        penalty: coefficient of the loss, which is averaged over the rows that are not fully
            masked; 0 for none.

    Call arguments:
        inputs: H, `(B, S, D)`.
        mask: `(B, S)`, True at valid positions; combined by AND with the implicit Keras mask.
        return_attention_scores: whether to also return the weights.

    Returns:
        M, `(B, r, D)` and, on request, the weights A, `(B, r, S)`.

    Weights:
        key_kernel: W1, `(D, A)`. queries: W2, `(r, A)`.

    Masking:
        Masked positions get weight 0, and their values do not affect the output. A fully masked
        row gives 0 and adds nothing to the loss. The output carries no mask: it has no time axis.

    Cost:
        O(S (D A + r A + r D)) time, O(r^2 S) for the penalty.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import StructuredSelfAttention
        >>> layer = StructuredSelfAttention(units=8, hops=3)
        >>> tuple(layer(np.ones((2, 5, 4), "float32")).shape), len(layer.losses)
        ((2, 3, 4), 1)

    Reference:
        Lin et al. 2017, arXiv 1703.03130, equations 6 to 8: W_s1 is W1 transposed, W_s2 is W2,
        d_a is A. The paper's penalty is for one sentence; here it is the mean over a batch.
    """

    def __init__(self, units: int, hops: int, penalty: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = zoo_ops.whole_number("units", units)
        self.hops = zoo_ops.whole_number("hops", hops)
        if not 0 <= zoo_ops.number(penalty) < math.inf:
            raise ValueError(f"penalty must be 0 (none) or more, got {penalty!r}")
        self.penalty = penalty
        self.attention = Attention("dot", dtype=self.dtype_policy, name="attention")

    def build(self, inputs_shape: Shape) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "steps", "features"))
        batch, steps, width = inputs_shape
        self.width = width
        self.key_kernel = self.add_kernel("key_kernel", (width, self.units))
        self.queries = self.add_kernel("queries", (self.hops, self.units))
        if not self.attention.built:
            query_shape, keys = (batch, self.hops, self.units), (batch, steps, self.units)
            self.attention.build(query_shape, tuple(inputs_shape), keys)

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, return_attention_scores: bool = False
    ) -> Any:
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "steps", self.width))
        mask = zoo_ops.merge_masks("mask", mask, inputs)
        inputs = zoo_ops.zero_masked(inputs, mask)
        keys = ops.tanh(zoo_ops.project(inputs, self.key_kernel))  # (B, S, A)
        query_shape = (ops.shape(inputs)[0], self.hops, self.units)
        queries = ops.broadcast_to(ops.cast(self.queries, keys.dtype), query_shape)
        context, weights = self.attention(
            queries, inputs, keys, value_mask=mask, return_attention_scores=True
        )
        if self.penalty:
            self.add_loss(self.penalty * zoo_ops.mean_penalty(diversity, weights))
        return (context, weights) if return_attention_scores else context

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: the output has no time axis."""
