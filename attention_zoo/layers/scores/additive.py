"""Additive (Bahdanau) score."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score, check_units
from attention_zoo.ops import additive_scores, at_least_float32, has_few_pairs, project
from attention_zoo.typing import Shape, Tensor


@SCORES.register("additive")
@keras.saving.register_keras_serializable("attention_zoo")
class AdditiveScore(Score):
    """Additive (Bahdanau) score: a feed-forward network with one hidden layer.

    `score(q, k) = v . tanh(q W + k U)`; with `normalize`, `g v / ||v|| . tanh(q W + k U + b)`

    Use it when query and key have different widths; it costs more time and memory than a dot
    product.

    Args:
        units: A, number of hidden units; the query's width when None.
        normalize: apply weight normalization to v, with a learned gain g (initially
            `sqrt(1 / A)`) and a bias b.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Weights:
        query_kernel: W, `(Dq, A)`. key_kernel: U, `(Dk, A)`. v: `(A,)`.
        gain: g, `()`, and bias: b, `(A,)`, with `normalize`.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys.

    Cost:
        O(S Dk A) once for the keys, then O(T (Dq + S) A) time and
        O(T S + (T + S) A) memory: the hidden layer is computed in blocks, and again for the
        gradient. With static shapes and fewer than 2^22 activations in all it is stored.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention
        >>> layer = Attention(score="additive", units=8)
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        Bahdanau et al. 2014, arXiv 1409.0473, appendix A.1.2 (the alignment model): W_a is W,
        U_a is U, v_a is v, s_{i-1} the query, h_j the key. Normalized: Salimans and Kingma 2016,
        arXiv 1602.07868, equation 2, applied to v.
    """

    def __init__(self, units: int | None = None, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_units(units)
        self.normalize = normalize

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        units = self.units or query_shape[-1]
        self.query_kernel = self.add_kernel("query_kernel", (query_shape[-1], units))
        self.key_kernel = self.add_kernel("key_kernel", (key_shape[-1], units))
        self.v = self.add_kernel("v", (units,))
        self.gain = self.bias = None
        if self.normalize:
            start = keras.initializers.Constant((1.0 / units) ** 0.5)
            self.gain = self.add_weight(shape=(), initializer=start, name="gain")
            self.bias = self.add_bias("bias", (units,))

    def project(self, key: Tensor) -> Tensor:
        return project(key, self.key_kernel)

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        projected = project(query, self.query_kernel)
        v = at_least_float32(ops.convert_to_tensor(self.v))
        if self.normalize:
            projected = projected + ops.cast(self.bias, projected.dtype)
            v = v * (ops.cast(self.gain, v.dtype) / ops.sqrt(ops.sum(ops.square(v))))
        if not has_few_pairs(projected, keys):
            return additive_scores(projected, keys, v)
        hidden = ops.tanh(projected[..., :, None, :] + keys[..., None, :, :])
        return project(at_least_float32(hidden), v[:, None])[..., 0]
