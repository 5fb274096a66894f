"""Dot-product score."""

from __future__ import annotations

import keras

from attention_zoo.layers.scores.base import SCORES, Score, dot, require_equal_widths
from attention_zoo.typing import Shape, Tensor


@SCORES.register("dot")
@keras.saving.register_keras_serializable("attention_zoo")
class DotScore(Score):
    """Dot product of query and key.

    `score(q, k) = q . k`

    Use it when query and key share a vector space and speed matters most.

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
        >>> from attention_zoo.layers import DotScore
        >>> DotScore()(np.ones((1, 2, 3), "float32"), np.ones((1, 4, 3), "float32")).shape[-1]
        4

    Reference:
        Luong et al. 2015, arXiv 1508.04025, section 3.1, the score "dot": h_t is the query,
        h_s the key.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        require_equal_widths("dot", query_shape, key_shape, 'use score="general"')

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return dot(query, keys)
