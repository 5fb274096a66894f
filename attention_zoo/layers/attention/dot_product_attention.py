"""Dot-product attention."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.kernels import select_part_arguments
from attention_zoo.layers.scores.dot import DotScore
from attention_zoo.layers.scores.scaled_dot import ScaledDotScore


@keras.saving.register_keras_serializable("attention_zoo")
class DotProductAttention(Attention):
    """Dot-product attention: the score is the inner product of query and key.

    `score(q, k) = q . k`, divided by `sqrt(D)` with `scale`

    Args:
        scale: whether to divide by the square root of the width, as in the Transformer.
        alignment: a name or an `Alignment`.
        dropout: dropout rate of the weights. seed: seed of the dropout.

    Call arguments:
        query: `(B, T, D)`. value: `(B, S, Dv)`. key: `(B, S, D)`, the value when None.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, Dv)`; if requested, also the weights `(B, T, S)`.

    Weights:
        None.

    Masking:
        As in `Attention`.

    Cost:
        O(T S (D + Dv)) time, O(T S) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import DotProductAttention
        >>> states = np.array([[[0, 1, 1], [5, 0, 1], [1, 1, 0], [0, 5, 1]]], "float32")
        >>> query = np.array([[[10, 5, 10]]], "float32")
        >>> [round(float(x), 4) for x in DotProductAttention()(query, states)[0, 0]]
        [5.0, 0.0, 1.0]

    Reference:
        Luong et al. 2015, arXiv 1508.04025, section 3.1 ("dot"); with `scale` Vaswani et al. 2017,
        arXiv 1706.03762, equation 1.
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
        score = (ScaledDotScore if scale else DotScore)(**select_part_arguments(kwargs))
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)
        self.scale = scale
