"""Entmax alignment: a family of sparse alignments between softmax and sparsemax."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.ops import at_least_float32, entmax, number
from attention_zoo.typing import State, Tensor

MIN_LEARNED_A = 1e-6
"""Lower bound of `alpha - 1` if alpha is learned; below it, float32 results equal softmax's."""


@ALIGNMENTS.register("entmax")
@keras.saving.register_keras_serializable("attention_zoo")
class EntmaxAlignment(Alignment):
    """Alpha-entmax: between softmax (alpha 1) and sparsemax (alpha 2), sparse for alpha above 1.

    `weights_j = max((alpha - 1) score_j - tau, 0)^(1 / (alpha - 1))`, tau such that they sum to one

    Use it for weights between those of softmax and sparsemax; alpha can be learned for each layer.

    Args:
        alpha: above 1 and at most 2; 1.5 and 2 are solved exactly by sorting, others by bisection.
        learn_alpha: learn `alpha = 1 + sigmoid(alpha_logit)`; its initial value `alpha` must be
            below 2.

    Call arguments:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
        state: `()`.

    Returns:
        Weights `(..., S)`, at least float32, and `()`. A fully masked row is all 0.

    Weights:
        alpha_logit: `()`, with `learn_alpha`; shared by all heads.

    Masking:
        Masked positions have weight exactly 0, whatever their scores.

    Cost:
        O(S log S) per row for sorting. For bisection, O(S) per row and step, in 30 steps.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import EntmaxAlignment
        >>> weights, _ = EntmaxAlignment()(np.array([[0.5, 0.0, -2.0]], "float32"))
        >>> [round(float(w), 4) for w in weights[0]]
        [0.674, 0.326, 0.0]

    Reference:
        Peters et al. 2019, arXiv 1905.05702, section 3 and algorithms 1 (bisection) and 2 (1.5 by
        sorting): z are the scores, p the weights. Correia et al. 2019, arXiv 1909.00015, section 3
        and proposition 1, for a learned alpha; the paper learns one per head.
    """

    def __init__(self, alpha: float = 1.5, learn_alpha: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 1 < number(alpha) <= 2:
            raise ValueError(
                f"alpha must be in (1, 2], got {alpha!r}; for alpha = 1 use the alignment 'softmax'"
            )
        if learn_alpha and alpha == 2:
            raise ValueError(
                "alpha must be below 2 with learn_alpha=True, got 2; use 1.9, or learn_alpha=False"
            )
        self.alpha, self.learn_alpha = alpha, learn_alpha

    def build(self, scores_shape: tuple[Any, ...]) -> None:
        self.alpha_logit = None
        if self.learn_alpha:
            start = keras.initializers.Constant(math.log((self.alpha - 1) / (2 - self.alpha)))
            self.alpha_logit = self.add_weight((), start, autocast=False, name="alpha_logit")

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        if self.alpha_logit is None:
            return entmax(scores, mask, self.alpha), state
        scores = at_least_float32(scores)
        a = ops.sigmoid(ops.cast(self.alpha_logit, scores.dtype))  # alpha - 1
        return entmax(scores, mask, 1 + ops.maximum(a, MIN_LEARNED_A)), state
