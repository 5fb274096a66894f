"""How near query and key are."""

from __future__ import annotations

import keras
from keras import ops

from attention_zoo.layers.scores.base import (
    SCORES,
    Score,
    Shape,
    Tensor,
    require_equal_widths,
)
from attention_zoo.ops import at_least_float32


@SCORES.register("euclidean")
@keras.saving.register_keras_serializable("attention_zoo")
class EuclideanScore(Score):
    """Nearness of query and key: 1 where they are the same, less the farther they are apart.

    `score(q, k) = 1 / (1 + ||q - k||)`

    The difference itself is squared: `||q||^2 - 2 q . k + ||k||^2` would be cheaper, but loses
    all digits where query and key are alike, which is where the score is great. A query that is
    its key gets gradient 0, the middle of all slopes there.

    Args:
        **kwargs: those of a Keras layer.

    Call arguments:
        query: `(..., T, D)`.
        key: `(..., S, D)`.

    Returns:
        Scores `(..., T, S)` above 0 and up to 1, float32 at least.

    Masking:
        None here: the attention masks scores and clears hidden keys.

    Cost:
        O(T S D) time and memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import EuclideanScore
        >>> query, key = np.array([[[3.0, 4.0]]], "float32"), np.zeros((1, 1, 2), "float32")
        >>> round(float(EuclideanScore()(query, key)[0, 0, 0]), 6)
        0.166667

    Reference:
        Yin et al. 2015, arXiv 1512.05193, section 4 (ABCNN-1, the match-score that fills the
        attention matrix A): x is the query, y the key.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        require_equal_widths("euclidean", query_shape, key_shape, 'use score="additive"')
        self.built = True

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        query, keys = at_least_float32(query), at_least_float32(keys)
        apart = query[..., :, None, :] - keys[..., None, :, :]
        squares = ops.sum(ops.square(apart), axis=-1)
        differ, one = squares > 0, ops.ones((), squares.dtype)
        distance = ops.sqrt(ops.where(differ, squares, one))
        return 1 / (1 + ops.where(differ, distance, ops.zeros((), squares.dtype)))
