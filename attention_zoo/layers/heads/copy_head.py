"""Output layer of a pointer-generator: generate a vocabulary token or copy a source token."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class CopyHead(KernelLayer):
    """Pointer-generator output layer: a gated mixture of generating and copying.

    `P(w) = p_gen softmax(z)_w + (1 - p_gen) sum_{i: w_i = w} a_i`,
    `p_gen = sigmoid(h* . w_h + s . w_s + x . w_x + b)`

    The output is computed in log space and is finite, also at p_gen 0 or 1. A token that can be
    neither generated nor copied has probability 1e-30. If all weights are 0, p_gen is 1. Train with
    `losses.CopyCrossEntropy` on the output, or with `ops.copied_cross_entropy` on the result of
    `gate`, without computing the output.

    Args:
        copies: C, number of ids beyond the vocabulary, for out-of-vocabulary source tokens.

    Call arguments:
        context: h*, `(B, ..., Dv)`, the attention's context, with any middle axes: `(B, T, Dv)`,
            or `(B, N, Dv)` in a search.
        state: s, `(B, ..., Ds)`, the decoder state.
        inputs: x, `(B, ..., Dx)`, the decoder input.
        logits: z, `(B, ..., V)`.
        weights: a, `(B, ..., S)`, attention weights whose rows sum to one.
        source: w, `(B, S)` integers below V + C; others count as the unknown token, 1.

    Returns:
        Log probabilities `(B, ..., V + C)`, float32 at least under any dtype policy.

    Weights:
        context_kernel: w_h, `(Dv, 1)`. state_kernel: w_s, `(Ds, 1)`. input_kernel: w_x, `(Dx, 1)`.
        bias: b, `()`.

    Masking:
        A source position with weight 0 is not copied. The context's mask is passed on.

    Cost:
        O(Dv + Ds + Dx + V + C + S) per position.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import CopyHead
        >>> features, logits = np.zeros((1, 1, 3), "float32"), np.zeros((1, 1, 4), "float32")
        >>> weights, source = np.array([[[0.25, 0.75]]], "float32"), np.array([[3, 4]])
        >>> head = CopyHead(copies=1)
        >>> p = np.exp(head(features, features, features, logits, weights, source))
        >>> [round(float(x), 3) for x in p[0, 0]]
        [0.125, 0.125, 0.125, 0.25, 0.375]

    Reference:
        See et al. 2017, arXiv 1704.04368, equations 8 and 9: w_h*, w_s, w_x and b_ptr are w_h, w_s,
        w_x and b, P_vocab is the softmax, a^t the weights.
    """

    def __init__(self, copies: int = 100, **kwargs: Any) -> None:
        super().__init__(**{"autocast": False, **kwargs})
        self.copies = zoo_ops.whole_number("copies", copies, low=0)
        self.supports_masking = True

    def build(self, context_shape: Shape, state_shape: Shape, inputs_shape: Shape) -> None:
        self.context_kernel = self.add_kernel("context_kernel", (context_shape[-1], 1))
        self.state_kernel = self.add_kernel("state_kernel", (state_shape[-1], 1))
        self.input_kernel = self.add_kernel("input_kernel", (inputs_shape[-1], 1))
        self.bias = self.add_bias("bias", ())

    def call(
        self,
        context: Tensor,
        state: Tensor,
        inputs: Tensor,
        logits: Tensor,
        weights: Tensor,
        source: Tensor,
    ) -> Tensor:
        gate = self.gate(context, state, inputs)
        axes = zoo_ops.sizes_or(tuple(f"axis {n}" for n in range(len(gate.shape))), gate.shape)
        zoo_ops.check_shape("logits", logits.shape, (*axes, "vocabulary"))
        zoo_ops.check_shape("weights", weights.shape, (*axes, "sources"))
        source_shape = zoo_ops.sizes_or(("batch", "sources"), (weights.shape[0], weights.shape[-1]))
        zoo_ops.check_shape("source", source.shape, source_shape)
        return zoo_ops.copied_log_probs(logits, gate, weights, source, self.copies)

    def gate(self, context: Tensor, state: Tensor, inputs: Tensor) -> Tensor:
        """Return p_gen's logit `h* . w_h + s . w_s + x . w_x + b`, `(B, ...)`, float32 at least."""
        kernels = (self.context_kernel, self.state_kernel, self.input_kernel)
        terms = [
            zoo_ops.project(ops.cast(x, self.compute_dtype), kernel)
            for x, kernel in zip((context, state, inputs), kernels, strict=True)
        ]
        gate = sum(zoo_ops.at_least_float32(term[..., 0]) for term in terms)
        return gate + ops.cast(self.bias, gate.dtype)
