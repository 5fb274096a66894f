"""Additive attention (Bahdanau)."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.kernels import select_part_arguments
from attention_zoo.layers.scores.additive import AdditiveScore


@keras.saving.register_keras_serializable("attention_zoo")
class AdditiveAttention(Attention):
    """Additive attention (Bahdanau): a feed-forward layer scores query and key.

    `score(q, k) = v . tanh(q W + k U)`; with `normalize`, `g v / ||v|| . tanh(q W + k U + b)`

    Args:
        units: A, hidden units of the score; the query's width when None.
        normalize: whether to weight-normalize v, with a learned gain g and bias b.
        alignment: a name or an `Alignment`.
        dropout: dropout rate of the weights. seed: seed of the dropout.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, Dv)`; if requested, also the weights `(B, T, S)`.

    Weights:
        query_kernel: W, `(Dq, A)`. key_kernel: U, `(Dk, A)`. v: `(A,)`.
        gain: g, `()`, and bias: b, `(A,)`, with `normalize`.

    Masking:
        As in `Attention`.

    Cost:
        O((T Dq + S Dk + T S) A + T S Dv) time; for the memory, see `AdditiveScore`.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import AdditiveAttention
        >>> layer = AdditiveAttention(units=8)
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        Bahdanau et al. 2014, arXiv 1409.0473, equations 5 and 6 and appendix A.1.2: W_a is W,
        U_a is U, v_a is v, s_{i-1} the query, h_j the key and the value.
    """

    config_excludes = ("score",)

    def __init__(
        self,
        units: int | None = None,
        normalize: bool = False,
        alignment: Any = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        score = AdditiveScore(units, normalize, **select_part_arguments(kwargs))
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)
        self.units, self.normalize = units, normalize
