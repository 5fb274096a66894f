"""The inner product over the root of the width."""

from __future__ import annotations

import keras

from attention_zoo.layers.scores.base import (
    SCORES,
    Score,
    Shape,
    Tensor,
    dot,
    require_equal_widths,
)
from attention_zoo.ops import at_least_float32


@SCORES.register("scaled_dot")
@keras.saving.register_keras_serializable("attention_zoo")
class ScaledDotScore(Score):
    """Inner product of query and key over the root of their width.

    `score(q, k) = q . k / sqrt(D)`

    Args:
        **kwargs: those of a Keras layer.

    Call arguments:
        query: `(..., T, D)`.
        key: `(..., S, D)`.

    Returns:
        Scores `(..., T, S)`, float32 at least.

    Masking:
        None here: the attention masks scores and clears hidden keys.

    Cost:
        O(T S D) time, O(T S) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import ScaledDotScore
        >>> one = np.ones((1, 1, 16), "float32")
        >>> float(ScaledDotScore()(one, one)[0, 0, 0])
        4.0

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, equation 1; d_k is D.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        require_equal_widths("scaled_dot", query_shape, key_shape, 'use score="general"')
        self.built = True

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        # The query is scaled, not the scores: there are fewer of its numbers.
        return dot(at_least_float32(query) * query.shape[-1] ** -0.5, keys)
