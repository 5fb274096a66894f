"""ALiBi position bias."""

from __future__ import annotations

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.positions.base import POSITIONS, RelativePositions
from attention_zoo.typing import Tensor


@POSITIONS.register("alibi")
@keras.saving.register_keras_serializable("attention_zoo")
class AlibiPositions(RelativePositions):
    """ALiBi: a bias on the scores that falls linearly with distance, with one slope per head.

    `score(q_t, k_s) = q_t . k_s / sqrt(D) - m_h |s - t|`, `m_h = 2^(-8 h / H)`

    The bias is the same in both directions. With `use_causal_mask` only s <= t is left, which is
    the paper's form. The bidirectional form is the usual extension; its bias does not distinguish
    left from right.

    Use it for texts longer than those in training (figure 1 of the paper); near positions get a
    higher score than distant ones.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(B, H, T, D)`.
        key: `(B, H, S, D)`.

    Returns:
        Scores `(B, H, T, S)`, at least float32.

    Weights:
        None: the slopes are fixed. If H is not a power of two, they are those of the next smaller
        power P, then every second one of 2 P.

    Masking:
        None here: the attention layer masks the scores. Left padding has no effect.

    Cost:
        O(H T S) in addition, shared by all batch rows.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MultiHeadAttention
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4, positions="alibi")
        >>> x = np.ones((2, 3, 8), "float32")
        >>> tuple(layer(x, x, use_causal_mask=True).shape)
        (2, 3, 8)

    Reference:
        Press et al. 2021, arXiv 2108.12409, section 3: m is m_h, i and j are t and s; the slopes
        for other numbers of heads are those of the authors' code.
    """

    def distance_bias(self, distances: Tensor, heads: int, dtype: str) -> Tensor:
        slopes = ops.convert_to_tensor(zoo_ops.linear_slopes(heads), dtype)
        distance = ops.cast(ops.abs(distances), dtype)
        return -ops.reshape(slopes, (heads, *(1 for _ in distance.shape))) * distance
