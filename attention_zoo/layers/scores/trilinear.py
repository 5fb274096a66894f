"""Trilinear score."""

from __future__ import annotations

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score, dot, require_equal_widths
from attention_zoo.ops import at_least_float32, project
from attention_zoo.typing import Shape, Tensor


@SCORES.register("trilinear")
@keras.saving.register_keras_serializable("attention_zoo")
class TrilinearScore(Score):
    """Trilinear score: a linear function of query, key and their elementwise product.

    `score(q, k) = w . [q; k; q * k] = q . w_q + (q * w_qk + w_k) . k`

    The right-hand side is computed, so the concatenation is never created for the T S pairs.

    Use it for reading comprehension; query and key also contribute to the score separately.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(..., T, D)`.
        key: `(..., S, D)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Weights:
        kernel: w, `(3 D,)`, the concatenation of w_q, w_k and w_qk.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys.

    Cost:
        O(T S D) time, O(T S) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention
        >>> layer = Attention(score="trilinear")
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")).shape)
        (2, 3, 4)

    Reference:
        Seo et al. 2016, arXiv 1611.01603, equation 1 and the text after it: w_(S) is w, the context
        word H_:t the query, the question word U_:j the key.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        require_equal_widths("trilinear", query_shape, key_shape, 'use score="concat"')
        self.kernel = self.add_kernel("kernel", (3 * query_shape[-1],))

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        query = at_least_float32(query)
        query_kernel, key_kernel, product_kernel = ops.split(ops.cast(self.kernel, query.dtype), 3)
        query_scores = project(query, query_kernel[:, None])
        return query_scores + dot(query * product_kernel + key_kernel, keys)
