"""Coverage score: the additive score with accumulated attention weights as a feature."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score, check_units
from attention_zoo.ops import additive_scores, at_least_float32, project
from attention_zoo.typing import Shape, State, Tensor


@SCORES.register("coverage")
@keras.saving.register_keras_serializable("attention_zoo")
class CoverageScore(Score):
    """Coverage score: an additive score with the sum of the key's earlier weights as a feature.

    `score(q_t, k_j) = v . tanh(q_t W + k_j U + c_tj w + b)`, `c_t = sum of weights_i over i < t`

    Use it to reduce repetition in long outputs, such as summaries.

    Args:
        units: A, number of hidden units; the query's width when None.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`.

    Returns:
        Scores `(..., T, S)` without coverage, as in the first step; at least float32. For later
        steps the attention layer passes the coverage to `compute_scores`.

    Weights:
        query_kernel: W, `(Dq, A)`. key_kernel: U, `(Dk, A)`. coverage_kernel: w, `(A,)`.
        bias: b, `(A,)`. v: `(A,)`.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys. The coverage of a
        masked position stays 0, and a fully masked row leaves the coverage unchanged.

    Cost:
        O(S Dk A) once for the keys, then O(T (Dq + S) A) time and O(S A) memory, plus
        O(T S) in training; the T steps run sequentially.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention
        >>> layer = Attention(score="coverage", units=8)
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        See et al. 2017, arXiv 1704.04368, equations 10 and 11: W_s is W, W_h is U, w_c is w,
        b_attn is b, s_t the query, h_i the key, c^t the coverage.
    """

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_units(units)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        units = self.units or query_shape[-1]
        self.query_kernel = self.add_kernel("query_kernel", (query_shape[-1], units))
        self.key_kernel = self.add_kernel("key_kernel", (key_shape[-1], units))
        self.coverage_kernel = self.add_kernel("coverage_kernel", (units,), num_inputs=0)
        self.bias = self.add_bias("bias", (units,))
        self.v = self.add_kernel("v", (units,))

    def initial_state(self, like: Tensor) -> State:
        return (ops.zeros_like(at_least_float32(like)),)

    def update_state(self, weights: Tensor, state: State) -> State:
        return (state[0] + weights,)

    def project(self, key: Tensor) -> Tensor:
        return project(key, self.key_kernel)

    def compute_scores(self, query: Tensor, keys: Tensor, state: State = ()) -> Tensor:
        """Compute scores of queries and projected keys, with the coverage as state.

        The state holds the coverage, `(..., T, S)`; an empty state means that it is 0.
        """
        projected = project(query, self.query_kernel)
        projected = projected + ops.cast(self.bias, projected.dtype)
        if not state:
            return additive_scores(projected, keys, self.v)
        coverage, kernel = state[0][..., None], self.coverage_kernel[None]
        return additive_scores(projected, keys, self.v, coverage, kernel)
