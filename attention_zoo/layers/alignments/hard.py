"""Hard (argmax) alignment."""

from __future__ import annotations

import keras

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.ops import hardmax
from attention_zoo.typing import State, Tensor


@ALIGNMENTS.register("hard")
@keras.saving.register_keras_serializable("attention_zoo")
class HardAlignment(Alignment):
    """Hard alignment: all weight on the greatest unmasked score, the first one on a tie.

    `weights = onehot(argmax_j score_j)`

    The argmax is a step function: values get a gradient, scores get none.

    Use it to select one position at inference; scores get no gradient.

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
        >>> from attention_zoo.layers import HardAlignment
        >>> weights, _ = HardAlignment()(np.array([[1.0, 3.0, 2.0]], "float32"))
        >>> [float(w) for w in weights[0]]
        [0.0, 1.0, 0.0]

    Reference:
        Xu et al. 2015, arXiv 1502.03044, section 4.1, with the most likely location instead of a
        sampled one; s_t is the row of weights.
    """

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        return hardmax(scores, mask), state
