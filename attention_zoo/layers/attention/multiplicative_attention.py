"""Multiplicative attention (Luong's "general" score)."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.kernels import select_part_arguments
from attention_zoo.layers.scores.general import GeneralScore


@keras.saving.register_keras_serializable("attention_zoo")
class MultiplicativeAttention(Attention):
    """Multiplicative attention: inner product of the query and a linear projection of the key.

    `score(q, k) = g q . (k W)`, with g = 1 unless `scale`

    Args:
        scale: whether to multiply the scores by a learned scalar g, initialized to 1.
        alignment: name of an alignment, or an `Alignment` instance.
        dropout: dropout rate on the weights, in training. seed: its random seed.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, Dv)` and, on request, the weights `(B, T, S)`.

    Weights:
        key_kernel: W, `(Dk, Dq)`. gain: g, `()`, with `scale`.

    Masking:
        As in `Attention`.

    Cost:
        O(S Dk Dq + T S (Dq + Dv)) time, O(T S) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MultiplicativeAttention
        >>> layer = MultiplicativeAttention(scale=True)
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        Luong et al. 2015, arXiv 1508.04025, section 3.1 ("general"): W_a is W, h_t the
        query, h_s key and value, a_t the weights, c_t the context.
    """

    config_excludes = ("score",)

    def __init__(
        self,
        scale: bool = False,
        alignment: Any = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        score = GeneralScore(scale, **select_part_arguments(kwargs))
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)
        self.scale = scale
