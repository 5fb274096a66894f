"""Euclidean score: similarity by inverse distance."""

from __future__ import annotations

import keras

from attention_zoo.layers.scores.base import SCORES, Score, require_equal_widths
from attention_zoo.ops import at_least_float32, inverse_distances
from attention_zoo.typing import Shape, Tensor


@SCORES.register("euclidean")
@keras.saving.register_keras_serializable("attention_zoo")
class EuclideanScore(Score):
    """Euclidean score: 1 where query and key are equal, decreasing with their distance.

    `score(q, k) = 1 / (1 + ||q - k||)`

    The difference itself is squared. `||q||^2 - 2 q . k + ||k||^2` would be cheaper, but loses all
    precision where query and key are nearly equal, which is where the score is greatest. Where
    query and key are equal, the gradient is 0, the mean of the slopes in all directions.

    Use it to match the words of two sentences by their distance.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(..., T, D)`.
        key: `(..., S, D)`.

    Returns:
        Scores `(..., T, S)` in (0, 1], at least float32.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys.

    Cost:
        O(T S D) time and O(T S + (T + S) D) memory: the differences are computed in blocks, and
        again for the gradient. With static shapes and fewer than 2^22 entries in all they are
        stored.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import EuclideanScore
        >>> query, key = np.array([[[3.0, 4.0]]], "float32"), np.zeros((1, 1, 2), "float32")
        >>> round(float(EuclideanScore()(query, key)[0, 0, 0]), 6)
        0.166667

    Reference:
        Yin et al. 2015, arXiv 1512.05193, section 4 (ABCNN-1, the match-score in the attention
        matrix A): x is the query, y the key.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        require_equal_widths("euclidean", query_shape, key_shape, 'use score="additive"')

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return inverse_distances(at_least_float32(query), at_least_float32(keys))
