"""See's attention with coverage."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.attention import Attention
from attention_zoo.layers.scores import CoverageScore


@keras.saving.register_keras_serializable("attention_zoo")
class CoverageAttention(Attention):
    """Attention that is told how much of each place it has seen already.

    `score(q_t, k_j) = v . tanh(q_t W + k_j U + c_tj w + b)`, `c_t = sum of weights_i over i < t`

    Args:
        units: A, width of the hidden layer; the query's width when None.
        alignment: a name or an `Alignment` that looks at the whole memory.
        dropout: rate of dropped weights in training (coverage sums what was before it). seed: its
            seed.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        Masks and switches as in `Attention`.

    Returns:
        Context `(B, T, Dv)`, and on request the weights `(B, T, S)` and the state, whose first
        part holds the coverage `(B, S)` after the last look.

    Weights:
        query_kernel: W, `(Dq, A)`. key_kernel: U, `(Dk, A)`. coverage_kernel: w, `(A,)`.
        bias: b, `(A,)`. v: `(A,)`.

    Masking:
        As in `Attention`. A hidden place is never covered; a hidden query, or one with nothing to
        attend, covers nothing.

    Cost:
        O((T Dq + S Dk + T S) A + T S Dv) time, O(T S) memory (and O(S A) for each look, T times
        in training), one look after the other.

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

    def __init__(
        self,
        units: int | None = None,
        alignment: Any = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        score = CoverageScore(units, dtype=kwargs.get("dtype"))
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)
        self.units = units

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["score"]
        return {**config, "units": self.units}
