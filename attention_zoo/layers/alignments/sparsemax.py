"""Sparsemax alignment."""

from __future__ import annotations

import keras

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.ops import sparsemax
from attention_zoo.typing import State, Tensor


@ALIGNMENTS.register("sparsemax")
@keras.saving.register_keras_serializable("attention_zoo")
class SparsemaxAlignment(Alignment):
    """Sparsemax: the Euclidean projection of the scores onto the probability simplex.

    `weights_j = max(score_j - tau, 0)`, tau such that they sum to one

    Scores far below the greatest get weight exactly 0.

    Use it for sparse weights: positions with low scores get exactly 0.

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
        O(S log S) per row, for sorting.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import SparsemaxAlignment
        >>> weights, _ = SparsemaxAlignment()(np.array([[0.5, 0.0, -2.0]], "float32"))
        >>> [round(float(w), 4) for w in weights[0]]
        [0.75, 0.25, 0.0]

    Reference:
        Martins and Astudillo 2016, arXiv 1602.02068, equation 2 and algorithm 1 (section 2.2);
        its derivative, section 2.5: z are the scores, p the weights.
    """

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        return sparsemax(scores, mask), state
