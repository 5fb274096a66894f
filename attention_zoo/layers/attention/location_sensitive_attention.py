"""Location-sensitive attention (Chorowski)."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.kernels import select_part_arguments
from attention_zoo.layers.scores.location_sensitive import LocationSensitiveScore


@keras.saving.register_keras_serializable("attention_zoo")
class LocationSensitiveAttention(Attention):
    """Location-sensitive attention: additive attention whose score uses the previous weights.

    `score(q_t, k_j) = v . tanh(q_t W + k_j U + f_tj P + b)`, `f_t = weights_{t-1} * F`

    Args:
        units: A, number of hidden units; the query's width when None.
        filters: number of location filters, that is of features f per position.
        kernel_size: width of the filters, in positions.
        cumulative: whether f is computed from the sum of all previous weights instead of the last
            weights.
        alignment: name of an alignment over the whole memory, or an `Alignment` instance.
        dropout: dropout rate on the weights, in training; f uses the weights before dropout.
        seed: random seed of the dropout.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, Dv)` and, on request, the weights `(B, T, S)` and the state. The first part
        of the state holds the weights `(B, S)` (or their sum) that the next step would use.

    Weights:
        query_kernel: W, `(Dq, A)`. key_kernel: U, `(Dk, A)`.
        location_filters: F, `(kernel_size, 1, filters)`. location_kernel: P, `(filters, A)`.
        bias: b, `(A,)`. v: `(A,)`.

    Masking:
        As in `Attention`. Masked positions are zeros in the convolution. A masked query, or one
        with nothing to attend to, does not change the state: the next step uses the weights before
        it.

    Cost:
        O((T Dq + S Dk) A + T S (kernel_size filters + filters A + Dv)) time, O(T S) memory (plus
        O(S (filters + A)) per step, and O(T S filters) in training). The T steps are sequential.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import LocationSensitiveAttention
        >>> layer = LocationSensitiveAttention(units=8, filters=4, kernel_size=3)
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        Chorowski et al. 2015, arXiv 1506.07503, section 2.2, equations 8 and 9: W is W, V is U,
        U is P, w is v, s_{i-1} the query, h_j key and value, alpha_i the weights. `cumulative`, and
        the 32 filters of width 31: Shen et al. 2017, arXiv 1712.05884, the section "Spectrogram
        Prediction Network".
    """

    config_excludes = ("score",)

    def __init__(
        self,
        units: int | None = None,
        filters: int = 32,
        kernel_size: int = 31,
        cumulative: bool = False,
        alignment: Any = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        options = (units, filters, kernel_size, cumulative)
        score = LocationSensitiveScore(*options, **select_part_arguments(kwargs))
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)
        self.units, self.filters = units, filters
        self.kernel_size, self.cumulative = kernel_size, cumulative
