"""The further, the less."""

from __future__ import annotations

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.positions.base import POSITIONS, RelativePositions, Tensor


@POSITIONS.register("alibi")
@keras.saving.register_keras_serializable("attention_zoo")
class AlibiPositions(RelativePositions):
    """Scores fall with the distance, at a slope of each head's own.

    `score(q_t, k_s) = q_t . k_s / sqrt(D) - m_h |s - t|`, `m_h = 2^(-8 h / H)`

    Both sides fall alike. With `use_causal_mask` only s <= t is left, which is the paper's form;
    the form for both directions is the usual extension, in which no head tells left from right by
    this bias.

    Args:
        **kwargs: those of a Keras layer.

    Call arguments:
        query: `(B, H, T, D)`.
        key: `(B, H, S, D)`.

    Returns:
        Scores `(B, H, T, S)`, float32 at least.

    Weights:
        None: the slopes are fixed. Where H is no power of two they are those of the next smaller
        power P, then every second one of 2 P.

    Masking:
        None here: the attention masks scores. Padding on the left is not seen.

    Cost:
        O(H T S) more, the same for all rows.

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

    def of_distances(self, distances: Tensor, heads: int, dtype: str) -> Tensor:
        slopes = ops.convert_to_tensor(zoo_ops.linear_slopes(heads), dtype)
        far = ops.cast(ops.abs(distances), dtype)
        return -ops.reshape(slopes, (heads, *(1 for _ in far.shape))) * far
