"""Scaled dot-product score."""

from __future__ import annotations

import keras

from attention_zoo.layers.scores.base import SCORES, Score, dot, require_equal_widths
from attention_zoo.ops import at_least_float32
from attention_zoo.typing import Shape, Tensor


@SCORES.register("scaled_dot")
@keras.saving.register_keras_serializable("attention_zoo")
class ScaledDotScore(Score):
    """Dot product of query and key, divided by the square root of their width.

    `score(q, k) = q . k / sqrt(D)`

    Use it instead of dot for wide vectors, because the variance of a dot product grows with the
    width; it is the score of Transformers.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(..., T, D)`.
        key: `(..., S, D)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys.

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

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        # Scale the query, not the scores: it has fewer elements.
        return dot(at_least_float32(query) * query.shape[-1] ** -0.5, keys)
