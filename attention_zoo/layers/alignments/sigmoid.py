"""Look at each place, or not, by itself."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, State, Tensor
from attention_zoo.ops import at_least_float32, number


@ALIGNMENTS.register("sigmoid")
@keras.saving.register_keras_serializable("attention_zoo")
class SigmoidAlignment(Alignment):
    """Every place weighs by its own score alone: none takes from another.

    `weights_j = sigmoid(score_j + b)`

    A row sums to anything from 0 to S.

    Args:
        bias_init: where b starts; `-log(S)` of a typical S makes rows sum to about one at first.

    Call arguments:
        scores: `(..., S)`.
        mask: booleans that broadcast against `scores`, or None.
        state: `()`.

    Returns:
        Weights `(..., S)`, float32 at least, and `()`. A row with nothing to attend is all 0.

    Weights:
        score_bias: b, `()`.

    Masking:
        Hidden positions weigh exactly 0, whatever their scores.

    Cost:
        O(S) a row.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import SigmoidAlignment
        >>> weights, _ = SigmoidAlignment()(np.zeros((1, 3), "float32"))
        >>> [float(w) for w in weights[0]]
        [0.5, 0.5, 0.5]

    Reference:
        Ramapuram et al. 2024, arXiv 2409.04431, section 2: b is b, there -log n, with n for S, and
        not learned.
    """

    def __init__(self, bias_init: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not math.isfinite(number(bias_init)):
            raise ValueError(f"bias_init must be a finite number, got {bias_init!r}")
        self.bias_init = bias_init

    def build(self, scores_shape: tuple[Any, ...]) -> None:
        start = keras.initializers.Constant(self.bias_init)
        self.score_bias = self.add_weight(shape=(), initializer=start, name="score_bias")
        self.built = True

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        scores = at_least_float32(scores)
        zero = ops.zeros((), scores.dtype)
        clean = scores if mask is None else ops.where(mask, scores, zero)
        weights = ops.sigmoid(clean + ops.cast(self.score_bias, scores.dtype))
        return weights if mask is None else ops.where(mask, weights, zero), state

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "bias_init": self.bias_init}
