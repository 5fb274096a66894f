"""Softmax alignment."""

from __future__ import annotations

import keras

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.ops import masked_softmax
from attention_zoo.typing import State, Tensor


@ALIGNMENTS.register("softmax")
@keras.saving.register_keras_serializable("attention_zoo")
class SoftmaxAlignment(Alignment):
    """Softmax (soft, global) alignment.

    `weights_j = exp(score_j) / sum_i exp(score_i)` over the unmasked positions

    Use it by default.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
        state: `()`.

    Returns:
        Weights `(..., S)`, at least float32, and `()`. A fully masked row is all 0.

    Masking:
        Masked positions have weight exactly 0, whatever their scores.

    Cost:
        O(S) per row.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import SoftmaxAlignment
        >>> weights, _ = SoftmaxAlignment()(np.zeros((1, 4), "float32"))
        >>> float(weights[0, 0])
        0.25

    Reference:
        Bahdanau et al. 2014, arXiv 1409.0473, equation 6: e_ij are the scores, alpha_ij the
        weights.
    """

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        return masked_softmax(scores, mask), state
