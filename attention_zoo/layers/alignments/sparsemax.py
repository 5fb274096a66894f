"""Look at few places, by projection."""

from __future__ import annotations

import keras

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, State, Tensor
from attention_zoo.ops import sparsemax


@ALIGNMENTS.register("sparsemax")
@keras.saving.register_keras_serializable("attention_zoo")
class SparsemaxAlignment(Alignment):
    """The shares nearest to the scores: those far below the best weigh exactly 0.

    `weights_j = max(score_j - tau, 0)`, tau such that they sum to one

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
        O(S log S) a row, for sorting.

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
