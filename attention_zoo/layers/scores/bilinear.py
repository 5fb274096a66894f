"""Bilinear score with an optional bias and activation."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score, dot
from attention_zoo.ops import project
from attention_zoo.typing import Shape, Tensor


@SCORES.register("bilinear")
@keras.saving.register_keras_serializable("attention_zoo")
class BilinearScore(Score):
    """Bilinear score: a bilinear form of query and key, with an optional bias and activation.

    `score(q, k) = f(q W k + b)`

    Without activation and bias it is the general score. A bias alone shifts all scores of a row
    equally. It has an effect only with an activation, or with an alignment that is not invariant to
    such shifts (softmax is, sigmoid is not).

    Use it instead of general if you need a bias or a bounded activation.

    Args:
        activation: f, as in `keras.layers.Dense`; None for no activation.
        use_bias: whether to add the bias b.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Weights:
        kernel: W, `(Dq, Dk)`. bias: b, `()`, with `use_bias`.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys.

    Cost:
        O(S Dk Dq) once for the keys, then O(T S Dq) time and O(T S) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention, BilinearScore
        >>> layer = Attention(score=BilinearScore(activation="tanh"))
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        Chen et al. 2016, arXiv 1606.02858, section 3.2 (the bilinear term): W_s is W, q the query,
        p_i the key; there is no f and no b. With f = tanh and b: Ma et al. 2017, arXiv 1709.00893,
        the equation of the score function gamma: W_a is W, b_a is b, h_c the key, t_avg the query.
    """

    def __init__(self, activation: Any = None, use_bias: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.kernel = self.add_kernel("kernel", (query_shape[-1], key_shape[-1]))
        self.bias = self.add_bias("bias", ()) if self.use_bias else None

    def project(self, key: Tensor) -> Tensor:
        return project(key, ops.transpose(self.kernel))

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = dot(query, keys)
        if self.bias is not None:
            scores = scores + ops.cast(self.bias, scores.dtype)
        return self.activation(scores)
