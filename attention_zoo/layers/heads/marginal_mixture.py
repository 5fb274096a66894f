"""Output distribution of hard attention, marginalized over the source positions."""

from __future__ import annotations

import keras
import numpy as np
from keras import backend, ops

from attention_zoo.layers.base import BaseLayer
from attention_zoo.ops import at_least_float32, static_size
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class MarginalMixture(BaseLayer):
    """Output distribution of hard attention, marginalized over all source positions.

    `log p(v) = log sum_s weights_s softmax(logits_s)_v`

    This is exact hard attention, without sampling. It needs the output logits for every source
    position, so the memory must be short. Train it with
    `SparseCategoricalCrossentropy(from_logits=True)`.

    Args:
        **kwargs: arguments of `keras.layers.Layer`; `dtype="float32"` keeps the result in full
            precision in a mixed-precision model.

    Call arguments:
        weights: `(B, T, S)` attention weights whose rows sum to one (softmax, entmax).
        logits: `(B, T, S, V)`, the output logits of step t if it attends to position s.

    Returns:
        Log probabilities `(B, T, V)`.

    Weights:
        None.

    Masking:
        Positions whose weight is 0 or subnormal are ignored, and their logits (even NaN) do not
        affect the output. The output of a step whose weights are all 0 is 0 for every v.

    Cost:
        O(T S V) time and memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MarginalMixture
        >>> weights = np.array([[[0.25, 0.75]]], "float32")
        >>> logits = np.log(np.array([[[[0.5, 0.5], [0.9, 0.1]]]], "float32"))
        >>> [round(float(p), 4) for p in np.exp(MarginalMixture()(weights, logits)[0, 0])]
        [0.8, 0.2]

    Reference:
        Wu, Shapiro and Cotterell 2018, arXiv 1808.10024, section 2: the weights are the alignment
        distribution of one output symbol, softmax(logits_s) its emission from one aligned position.
    """

    def build(self, weights_shape: Shape, logits_shape: Shape) -> None:
        _check_pair(weights_shape, logits_shape)

    def call(self, weights: Tensor, logits: Tensor) -> Tensor:
        _check_pair(weights.shape, logits.shape)
        weights, logits = at_least_float32(weights), at_least_float32(logits)
        limits = np.finfo(backend.standardize_dtype(weights.dtype))
        # Smaller weights have no finite gradient of the log. NaN counts as positive. (TensorFlow's
        # graph optimizer would rewrite `logical_not(weights < tiny)` to `>=`.)
        is_positive = ops.logical_or(weights >= limits.tiny, ops.isnan(weights))
        one, zero = ops.ones((), weights.dtype), ops.zeros((), weights.dtype)
        log_weights = ops.log(ops.where(is_positive, weights, one))[..., None]
        log_probs = ops.log_softmax(ops.where(is_positive[..., None], logits, zero), axis=-1)
        lowest = ops.cast(limits.min, weights.dtype)
        terms = ops.where(is_positive[..., None], log_weights + log_probs, lowest)
        mixed = ops.logsumexp(terms, axis=-2)
        row_mask = ops.any(is_positive, axis=-1, keepdims=True)
        return ops.cast(ops.where(row_mask, mixed, zero), self.compute_dtype)

    def compute_output_shape(self, weights_shape: Shape, logits_shape: Shape) -> Shape:
        return (*logits_shape[:2], logits_shape[3])


def _check_pair(weights_shape: Shape, logits_shape: Shape) -> None:
    """Raise ValueError unless both shapes have the same batch size, steps and sources."""
    if len(weights_shape) != 3 or len(logits_shape) != 4:
        raise ValueError(
            "weights must be (batch, steps, sources) and logits (batch, steps, sources, "
            f"vocabulary), got shapes {tuple(weights_shape)} and {tuple(logits_shape)}"
        )
    for name, ours, theirs in zip(
        ("rows", "steps", "sources"), weights_shape, logits_shape, strict=False
    ):
        if None not in map(static_size, (ours, theirs)) and ours != theirs:
            raise ValueError(
                f"weights and logits must have the same number of {name}, got {ours} and {theirs}"
            )
