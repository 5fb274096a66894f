"""Masked softmax."""

from __future__ import annotations

from keras import backend, ops

from attention_zoo.typing import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """Cast `x` to float32, unless it is float64."""
    dtype = backend.standardize_dtype(x.dtype)
    return x if dtype in ("float32", "float64") else ops.cast(x, "float32")


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute the softmax over the unmasked entries of the last axis, in at least float32.

    Masked positions have weight exactly 0, whatever their scores. A fully masked row, or one of
    length 0, is all zeros and passes no gradient.

    Args:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
    """
    scores = at_least_float32(scores)
    if mask is None:
        return _softmax(scores)
    zero = ops.zeros((), scores.dtype)
    anything = ops.any(mask, axis=-1, keepdims=True)
    hidden = ops.where(anything, ops.full((), float("-inf"), scores.dtype), zero)
    return ops.where(mask, _softmax(ops.where(mask, scores, hidden)), zero)


def _softmax(scores: Tensor) -> Tensor:
    """Compute `ops.softmax`, without its warning about an axis of size 1, which is valid here."""
    return ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores, axis=-1)
