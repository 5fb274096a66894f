"""Look at one place."""

from __future__ import annotations

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, State, Tensor
from attention_zoo.ops import at_least_float32


@ALIGNMENTS.register("hard")
@keras.saving.register_keras_serializable("attention_zoo")
class HardAlignment(Alignment):
    """All weight on the greatest score that the mask allows, the first one on a tie.

    `weights = onehot(argmax_j score_j)`

    The choice is a step function: values get a gradient, scores get none.

    Args:
        **kwargs: those of a Keras layer.

    Call arguments:
        scores: `(..., S)`.
        mask: booleans that broadcast against `scores`, or None.
        state: `()`.

    Returns:
        Weights `(..., S)`, float32 at least, and `()`. A row with nothing to attend is all 0.

    Masking:
        Hidden positions weigh exactly 0, whatever their scores.

    Cost:
        O(S) a row.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import HardAlignment
        >>> weights, _ = HardAlignment()(np.array([[1.0, 3.0, 2.0]], "float32"))
        >>> [float(w) for w in weights[0]]
        [0.0, 1.0, 0.0]

    Reference:
        Xu et al. 2015, arXiv 1502.03044, section 4.1, with the most likely location in place of
        a sampled one; s_t is the row of weights.
    """

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        scores = at_least_float32(scores)
        if scores.shape[-1] == 0:
            return scores, state
        allowed = ops.ones_like(scores, dtype="bool")
        if mask is not None:
            allowed = ops.logical_and(mask, allowed)
        ranked = ops.where(allowed, scores, ops.full((), float("-inf"), scores.dtype))
        best = ops.one_hot(ops.argmax(ranked, axis=-1), ops.shape(scores)[-1], dtype=scores.dtype)
        return ops.where(allowed, best, ops.zeros((), scores.dtype)), state
