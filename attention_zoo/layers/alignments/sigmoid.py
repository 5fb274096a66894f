"""Sigmoid alignment."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.ops import at_least_float32, finite_number
from attention_zoo.typing import State, Tensor


@ALIGNMENTS.register("sigmoid")
@keras.saving.register_keras_serializable("attention_zoo")
class SigmoidAlignment(Alignment):
    """Sigmoid alignment: the weight of a position depends on its own score only.

    `weights_j = sigmoid(score_j + b)`

    A row sums to a value between 0 and S.

    Use it when positions are independent: any number of them can have a weight near 1.

    Args:
        bias_init: initial value of b; `-log(S)` for a typical S makes rows initially sum to about
            one.

    Call arguments:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
        state: `()`.

    Returns:
        Weights `(..., S)`, at least float32, and `()`. A fully masked row is all 0.

    Weights:
        score_bias: b, `()`.

    Masking:
        Masked positions have weight exactly 0, whatever their scores.

    Cost:
        O(S) per row.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import SigmoidAlignment
        >>> weights, _ = SigmoidAlignment()(np.zeros((1, 3), "float32"))
        >>> [float(w) for w in weights[0]]
        [0.5, 0.5, 0.5]

    Reference:
        Ramapuram et al. 2024, arXiv 2409.04431, section 2: b is b, which in the paper is -log n
        (n is S) and not learned.
    """

    def __init__(self, bias_init: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bias_init = finite_number("bias_init", bias_init)

    def build(self, scores_shape: tuple[Any, ...]) -> None:
        start = keras.initializers.Constant(self.bias_init)
        self.score_bias = self.add_weight(shape=(), initializer=start, name="score_bias")

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        scores = at_least_float32(scores)
        zero = ops.zeros((), scores.dtype)
        clean = scores if mask is None else ops.where(mask, scores, zero)
        weights = ops.sigmoid(clean + ops.cast(self.score_bias, scores.dtype))
        return weights if mask is None else ops.where(mask, weights, zero), state
