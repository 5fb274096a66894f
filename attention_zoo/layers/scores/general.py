"""General (Luong) score."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score, dot
from attention_zoo.ops import project, static_size
from attention_zoo.typing import Shape, Tensor


@SCORES.register("general")
@keras.saving.register_keras_serializable("attention_zoo")
class GeneralScore(Score):
    """General (Luong) score: dot product of the query with a linear projection of the key.

    `score(q, k) = g q . (k W)`, with g = 1 unless `scale`

    Use it when query and key come from different networks, as in a decoder with an encoder.

    Args:
        scale: learn a scalar g, initially 1, that multiplies the scores.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Weights:
        key_kernel: W, `(Dk, Dq)`. gain: g, `()`, with `scale`.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys.

    Cost:
        O(S Dk Dq) once for the keys, then O(T S Dq) time and O(T S) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention
        >>> layer = Attention(score="general")
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        Luong et al. 2015, arXiv 1508.04025, section 3.1, the score "general": W_a is W, h_t
        the query, h_s the key. The scalar g is TensorFlow's addition, not the paper's.
    """

    def __init__(self, scale: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = scale

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.key_kernel = self.add_kernel("key_kernel", (key_shape[-1], query_shape[-1]))
        self.gain = self.weight("gain", (), "ones") if self.scale else None

    def project(self, key: Tensor) -> Tensor:
        return project(key, self.key_kernel)

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = dot(query, keys)
        return scores if self.gain is None else scores * ops.cast(self.gain, scores.dtype)

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        """Compute scores; W multiplies the shorter sequence, as `q . (k W)` is `(q W^T) . k`."""
        self.check(query, key)
        queries, keys = map(static_size, (query.shape[-2], key.shape[-2]))
        if queries is None or keys is None or queries >= keys:
            return self.compute_scores(query, self.project(key))
        return self.compute_scores(project(query, ops.transpose(self.key_kernel)), key)
