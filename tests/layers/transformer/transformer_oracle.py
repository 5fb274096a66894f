"""Sublayers of a Transformer in NumPy, following the paper."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.layers.attention_case import Array, Result, softmax
from tests.layers.running import array


def double(x: Any) -> Array:
    return np.asarray(array(x), "float64")


def layer_norm(norm: Any, x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    unit = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + norm.epsilon)
    return unit * double(norm.gamma) + double(norm.beta)


def heads(layer: Any, query: Array, memory: Array, allowed: Array) -> Result:
    """`MultiHeadAttention` where `allowed (B, T, S)`, and its weights `(B, H, T, S)`."""

    def project(x: Array, name: str) -> Array:
        kernel, bias = (double(getattr(layer, f"{name}_{part}")) for part in ("projection", "bias"))
        return np.einsum("bld,dhk->bhlk", x, kernel) + bias[:, None]

    q, k, v = project(query, "query"), project(memory, "key"), project(memory, "value")
    scores = np.einsum("bhtk,bhsk->bhts", q, k) / np.sqrt(layer.key_dim)
    weights = np.zeros_like(scores)
    for b, h, t in np.ndindex(*scores.shape[:3]):
        weights[b, h, t] = softmax(scores[b, h, t], allowed[b, t])
    context = np.einsum("bhts,bhsv,hvd->btd", weights, v, double(layer.output_projection))
    attends = allowed.any(-1)[..., None]
    return np.where(attends, context + double(layer.output_bias), 0), weights


def attending(attention: Any, memory: Any, allowed: Array, weights: list[Array]) -> Any:
    """Return a self- or cross-attention sublayer, which appends its weights to a list."""

    def work(x: Array) -> Array:
        context, attention_weights = heads(attention, x, x if memory is None else memory, allowed)
        weights.append(attention_weights)
        return context

    return work


def feed_forward(layer: Any, x: Array) -> Array:
    def linear(dense: Any, x: Array) -> Array:
        return x @ double(dense.kernel) + double(dense.bias)

    return linear(layer.second, np.maximum(linear(layer.first, x), 0))


def apply_residual(residual: Any, x: Array, work: Any) -> Array:
    """Apply a sublayer with a residual connection and pre-norm or post-norm."""
    if residual.norm_first:
        return x + work(layer_norm(residual.norm, x))
    return layer_norm(residual.norm, x + work(x))
