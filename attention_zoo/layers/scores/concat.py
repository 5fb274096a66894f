"""Concat (Luong) score."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.scores.base import SCORES, Score, check_units
from attention_zoo.ops import additive_scores, project
from attention_zoo.typing import Shape, Tensor


@SCORES.register("concat")
@keras.saving.register_keras_serializable("attention_zoo")
class ConcatScore(Score):
    """Concat (Luong) score: one hidden layer on the concatenated query and key.

    `score(q, k) = v . tanh([q; k] W)`

    The product is computed as `q W_q + k W_k`, with W_q and W_k the upper and lower rows of W, so
    that the keys are projected once. It differs from the additive score in its initialization,
    which uses a single fan-in of Dq + Dk.

    Use it to reproduce Luong's concat score. It is the additive score with another initialization.

    Args:
        units: A, number of hidden units; the query's width when None.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Weights:
        kernel: W, `(Dq + Dk, A)`. v: `(A,)`.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys.

    Cost:
        O(S Dk A) once for the keys, then O(T (Dq + S) A) time and
        O(T S + (T + S) A) memory: the hidden layer is computed in blocks, and again for the
        gradient. With static shapes and fewer than 2^22 activations in all it is stored.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention
        >>> layer = Attention(score="concat", units=8)
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        Luong et al. 2015, arXiv 1508.04025, section 3.1, the score "concat": W_a is W, v_a
        is v (one version of the paper prints the score without it), h_t the query, h_s the key.
    """

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_units(units)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.query_width = query_shape[-1]
        units = self.units or self.query_width
        self.kernel = self.add_kernel("kernel", (self.query_width + key_shape[-1], units))
        self.v = self.add_kernel("v", (units,))

    def project(self, key: Tensor) -> Tensor:
        return project(key, self.kernel[self.query_width :])

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        projected = project(query, self.kernel[: self.query_width])
        return additive_scores(projected, keys, self.v)
