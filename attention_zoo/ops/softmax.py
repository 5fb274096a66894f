"""Scores to weights that sum to one."""

from __future__ import annotations

from typing import Any

from keras import backend, ops

Tensor = Any


def at_least_float32(x: Tensor) -> Tensor:
    """`x` in float32, or in float64 where it is that already."""
    dtype = backend.standardize_dtype(x.dtype)
    return x if dtype in ("float32", "float64") else ops.cast(x, "float32")


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis of what the mask allows, in float32 at least.

    A hidden position weighs exactly 0 whatever its score. A row with nothing to attend, or of
    length 0, is all zeros and passes no gradient.

    Args:
        scores: `(..., S)`.
        mask: booleans that broadcast against `scores`, or None.
    """
    scores = at_least_float32(scores)
    if mask is None:
        return _softmax(scores)
    zero = ops.zeros((), scores.dtype)
    anything = ops.any(mask, axis=-1, keepdims=True)
    hidden = ops.where(anything, ops.full((), float("-inf"), scores.dtype), zero)
    return ops.where(mask, _softmax(ops.where(mask, scores, hidden)), zero)


def _softmax(scores: Tensor) -> Tensor:
    """`ops.softmax`, whose warning about an axis of size 1 is none here: one row may be all."""
    return ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores, axis=-1)
