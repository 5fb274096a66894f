"""Top-k alignment."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.ops import masked_softmax, top_k_mask, whole_number
from attention_zoo.typing import State, Tensor


@ALIGNMENTS.register("top_k")
@keras.saving.register_keras_serializable("attention_zoo")
class TopKAlignment(Alignment):
    """Softmax over the k greatest unmasked scores; the first ones on ties.

    `weights_j = exp(score_j) / sum_{i in best k} exp(score_i)` for j among the best k, else 0

    Use it when at most k positions may be attended, whatever the scores.

    Args:
        k: number of positions kept in a row; shorter rows keep all.

    Call arguments:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
        state: `()`.

    Returns:
        Weights `(..., S)`, at least float32, and `()`. A fully masked row is all 0.

    Masking:
        Masked positions have weight exactly 0, whatever their scores, and do not count towards k.

    Cost:
        O(S log k) per row. All S scores are computed; those not kept get no gradient.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import TopKAlignment
        >>> weights, _ = TopKAlignment(k=2)(np.array([[1.0, 3.0, 3.0, 2.0]], "float32"))
        >>> [float(w) for w in weights[0]]
        [0.0, 0.5, 0.5, 0.0]

    Reference:
        Zhao et al. 2019, arXiv 1912.11637, section 3: P are the scores, A the weights. The paper
        keeps all scores equal to the k-th greatest; here at most k are kept.
    """

    def __init__(self, k: int = 8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.k = whole_number("k", k)

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        return masked_softmax(scores, top_k_mask(scores, mask, self.k)), state
