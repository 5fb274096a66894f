"""Coverage attention."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.kernels import select_part_arguments
from attention_zoo.layers.scores.coverage import CoverageScore


@keras.saving.register_keras_serializable("attention_zoo")
class CoverageAttention(Attention):
    """Coverage attention: the score depends on the sum of all previous weights.

    `score(q_t, k_j) = v . tanh(q_t W + k_j U + c_tj w + b)`, `c_t = sum of weights_i over i < t`

    Args:
        units: A, hidden units of the score; the query's width when None.
        alignment: a name or an `Alignment` over the whole memory, without a window.
        dropout: dropout rate of the weights; the coverage sums the weights before dropout.
        seed: seed of the dropout.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, Dv)`; if requested, also the weights `(B, T, S)` and the state, whose first
        part holds the coverage `(B, S)` after the last step.

    Weights:
        query_kernel: W, `(Dq, A)`. key_kernel: U, `(Dk, A)`. coverage_kernel: w, `(A,)`.
        bias: b, `(A,)`. v: `(A,)`.

    Masking:
        As in `Attention`. The coverage of masked positions stays 0. Masked queries and fully
        masked rows do not change the coverage.

    Cost:
        O((T Dq + S Dk + T S) A + T S Dv) time in T sequential steps, O(T S) memory plus
        O(S A) per step (kept for all T steps in training).

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import CoverageAttention
        >>> layer = CoverageAttention(units=8)
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        See et al. 2017, arXiv 1704.04368, equations 2, 3, 10 and 11: W_s is W, W_h is U, w_c is
        w, b_attn is b, s_t the query, h_i key and value, c^t the coverage, h*_t the context.
    """

    config_excludes = ("score",)

    def __init__(
        self,
        units: int | None = None,
        alignment: Any = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        score = CoverageScore(units, **select_part_arguments(kwargs))
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)
        self.units = units
