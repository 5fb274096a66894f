"""Location-sensitive score: the additive score with convolved previous weights as features."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score, check_units
from attention_zoo.ops import additive_scores, at_least_float32, project, whole_number
from attention_zoo.typing import Shape, State, Tensor


@SCORES.register("location_sensitive")
@keras.saving.register_keras_serializable("attention_zoo")
class LocationSensitiveScore(Score):
    """Location-sensitive score: additive, with a convolution of the previous weights as features.

    `score(q_t, k_j) = v . tanh(q_t W + k_j U + f_tj P + b)`, `f_t = weights_{t-1} * F`

    F is applied along the memory, with zero padding at both ends. The weights are 0 at masked
    positions and before the first step. The filter is a cross-correlation with
    `(kernel_size - 1) // 2` taps before the current position.

    Use it for speech: long inputs in monotonic order with similar adjacent frames.

    Args:
        units: A, number of hidden units; the query's width when None.
        filters: number of convolution filters, the width of f.
        kernel_size: width of the convolution, in positions.
        cumulative: convolve the sum of all previous weights instead of the last ones.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`.

    Returns:
        Scores `(..., T, S)` without previous weights, as in the first step; at least float32. For
        later steps the attention layer passes the previous weights to `compute_scores`.

    Weights:
        query_kernel: W, `(Dq, A)`. key_kernel: U, `(Dk, A)`.
        location_filters: F, `(kernel_size, 1, filters)`. location_kernel: P, `(filters, A)`.
        bias: b, `(A,)`. v: `(A,)`.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys. Masked positions have
        weight exactly 0 in the convolution, and a fully masked row leaves the state unchanged.

    Cost:
        O(S Dk A) once for the keys, then O(T (Dq A + S (kernel_size filters + filters A))) time
        and O(S (filters + A)) memory, plus O(T S filters) in training; the T steps run
        sequentially.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention, LocationSensitiveScore
        >>> layer = Attention(score=LocationSensitiveScore(8, filters=4, kernel_size=3))
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        Chorowski et al. 2015, arXiv 1506.07503, section 2.2, equations 8 and 9: W is W, V is U,
        U is P, w is v, s_{i-1} the query, h_j the key, alpha_{i-1} the previous weights.
        `cumulative`, and 32 filters of width 31: Shen et al. 2017, arXiv 1712.05884, the section
        "Spectrogram Prediction Network".
    """

    def __init__(
        self,
        units: int | None = None,
        filters: int = 32,
        kernel_size: int = 31,
        cumulative: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_units(units)
        self.filters = whole_number("filters", filters)
        self.kernel_size = whole_number("kernel_size", kernel_size)
        self.cumulative = cumulative

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        units = self.units or query_shape[-1]
        self.query_kernel = self.add_kernel("query_kernel", (query_shape[-1], units))
        self.key_kernel = self.add_kernel("key_kernel", (key_shape[-1], units))
        self.location_filters = self.add_kernel(
            "location_filters", (self.kernel_size, 1, self.filters), num_inputs=2
        )
        self.location_kernel = self.add_kernel("location_kernel", (self.filters, units))
        self.bias = self.add_bias("bias", (units,))
        self.v = self.add_kernel("v", (units,))

    def initial_state(self, like: Tensor) -> State:
        return (ops.zeros_like(at_least_float32(like)),)

    def update_state(self, weights: Tensor, state: State) -> State:
        return (state[0] + weights,) if self.cumulative else (weights,)

    def project(self, key: Tensor) -> Tensor:
        return project(key, self.key_kernel)

    def compute_scores(self, query: Tensor, keys: Tensor, state: State = ()) -> Tensor:
        """Compute scores of queries and projected keys, with previous weights as state.

        The state holds the weights, `(..., T, S)`; an empty state means that they are 0.
        """
        projected = project(query, self.query_kernel)
        projected = projected + ops.cast(self.bias, projected.dtype)
        if not state:
            return additive_scores(projected, keys, self.v)
        features = self._convolve(state[0])
        return additive_scores(projected, keys, self.v, features, self.location_kernel)

    def _convolve(self, weights: Tensor) -> Tensor:
        """Compute `weights * F`, `(..., T, S)` to `(..., T, S, filters)`, in the weights' dtype."""
        *rows, sources = ops.shape(weights)
        # Pad by one position, removed below: a convolution of length 0 fails.
        flat = ops.pad(weights, [(0, 0)] * len(rows) + [(0, 1)])
        flat = ops.reshape(flat, (-1, sources + 1, 1))
        filters = ops.cast(self.location_filters, weights.dtype)
        features = ops.conv(flat, filters, padding="same", data_format="channels_last")
        return ops.reshape(features, (*rows, sources + 1, self.filters))[..., :-1, :]
