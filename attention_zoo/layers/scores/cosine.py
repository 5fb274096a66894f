"""Cosine score."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score, dot, require_equal_widths
from attention_zoo.ops import at_least_float32, finite_number
from attention_zoo.typing import Shape, Tensor


@SCORES.register("cosine")
@keras.saving.register_keras_serializable("attention_zoo")
class CosineScore(Score):
    """Cosine score: cosine similarity of query and key, divided by a temperature.

    `score(q, k) = q . k / (||q|| ||k|| temperature)`

    The scores of a zero vector are 0, and so are their gradients. Everything is computed in at
    least float32. The norms of very large and very small vectors neither overflow nor underflow.

    Use it when the norms of vectors should not matter, as in retrieval and few-shot matching.

    Args:
        temperature: divisor of the cosine; with `learn_temperature`, its initial value.
        learn_temperature: learn the logarithm of the temperature, so that it stays above 0.

    Call arguments:
        query: `(..., T, D)`.
        key: `(..., S, D)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Weights:
        log_temperature: `()`, with `learn_temperature`.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys.

    Cost:
        O(S D) once for the keys, then O(T S D) time and O(T S) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import CosineScore
        >>> query, key = np.array([[[3.0, 4.0]]], "float32"), np.array([[[0.0, 2.0]]], "float32")
        >>> round(float(CosineScore()(query, key)[0, 0, 0]), 6)
        0.8

    Reference:
        Graves et al. 2014, arXiv 1410.5401, equations 5 and 6: k_t is the query, M_t(i) a key,
        the key strength beta_t is 1 / temperature, which here is the same for every query.
    """

    def __init__(
        self, temperature: float = 1.0, learn_temperature: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.temperature = finite_number("temperature", temperature, above=0)
        self.learn_temperature = learn_temperature

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        require_equal_widths("cosine", query_shape, key_shape, 'use score="general"')
        self.log_temperature = None
        if self.learn_temperature:
            start = keras.initializers.Constant(math.log(self.temperature))
            self.log_temperature = self.add_weight((), start, name="log_temperature")

    def project(self, key: Tensor) -> Tensor:
        return _normalize(key)

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        cosine = dot(_normalize(query), keys)
        if self.log_temperature is None:
            return cosine / self.temperature
        return cosine * ops.exp(-ops.cast(self.log_temperature, cosine.dtype))


def _normalize(x: Tensor) -> Tensor:
    """Compute `x / ||x||` along the last axis, in at least float32; 0 where x is 0.

    x is first divided by its greatest absolute entry, so that no square overflows or underflows.
    The result does not depend on this divisor, so `stop_gradient` of it is exact.
    """
    x = at_least_float32(x)
    scale = ops.stop_gradient(ops.max(ops.abs(x), -1, keepdims=True, initial=0))
    nonzero, one = scale > 0, ops.ones((), x.dtype)
    x = x / ops.where(nonzero, scale, one)
    squared_norm = ops.where(nonzero, ops.sum(ops.square(x), axis=-1, keepdims=True), one)
    return x * ops.where(nonzero, ops.rsqrt(squared_norm), ops.zeros((), x.dtype))
