"""Operations with custom gradients, which need fewer graph operations if shapes are dynamic.

TensorFlow's gradient of a broadcasting operation calls `broadcast_gradient_args`, and sums over the
axes that it returns: about ten graph operations if a size is dynamic. Here the result has the shape
of `x`, so that the gradient needs no such sum. The values are the same, up to rounding.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from attention_zoo.typing import Tensor

_state = threading.local()


@contextlib.contextmanager
def use_compact_gradients() -> Iterator[None]:
    """Use the custom gradients of this module, on TensorFlow.

    Use it in training only: exports and forward-mode differentiation need the plain operations. A
    batch of size 1 broadcasts only if its size is static. The setting is local to the thread.
    """
    before = _uses_compact_gradients()
    _state.is_used = keras.backend.backend() == "tensorflow"
    try:
        yield
    finally:
        _state.is_used = before


def _uses_compact_gradients() -> bool:
    return getattr(_state, "is_used", False)


def add_same_shape(x: Tensor, y: Tensor) -> Tensor:
    """Add two tensors of the same shape and dtype; others broadcast as in `+`."""
    has_same_shape = tuple(x.shape) == tuple(y.shape) and x.dtype == y.dtype
    if not (_uses_compact_gradients() and has_same_shape):
        return x + y
    import tensorflow as tf

    return tf.add_n([x, y])


def where_or_zero(mask: Tensor, x: Tensor) -> Tensor:
    """Compute `ops.where(mask, x, 0)`; a masked NaN or Inf becomes 0 too.

    Args:
        mask: booleans. Unless they broadcast to the shape of `x`, the gradient is the plain one.
        x: any shape.
    """
    if not (_uses_compact_gradients() and _broadcasts_to_shape(mask, x)):
        return _where_or_zero(mask, x)

    def run(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return _where_or_zero(mask, x), lambda upstream: _where_or_zero(mask, upstream)

    return ops.custom_gradient(run)(x)


def _where_or_zero(mask: Tensor, x: Tensor) -> Tensor:
    return ops.where(mask, x, ops.zeros((), x.dtype))


def with_softmax_gradient(
    compute: Callable[[Tensor, Tensor], Tensor], scores: Tensor, mask: Tensor
) -> Tensor:
    """Return `compute(scores, mask)`, with the custom gradient of a masked softmax.

    Args:
        compute: a masked softmax over the last axis, 0 where masked.
        scores: `(..., S)`.
        mask: booleans, as in `where_or_zero`.
    """
    if not (_uses_compact_gradients() and _broadcasts_to_shape(mask, scores)):
        return compute(scores, mask)

    def run(scores: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        weights = compute(scores, mask)

        def gradient(upstream: Tensor) -> Tensor:
            upstream = _where_or_zero(mask, upstream)
            mean = ops.sum(upstream * weights, axis=-1, keepdims=True)
            return (upstream - mean) * weights

        return weights, gradient

    return ops.custom_gradient(run)(scores)


def layer_normalization(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """Normalize the last axis, as `keras.ops.layer_normalization`.

    Args:
        x: `(..., D)`.
        gamma: scale, `(D,)`.
        beta: offset, `(D,)`.
        epsilon: added to the variance.
    """
    if not _uses_compact_gradients():
        return ops.layer_normalization(x, gamma, beta, epsilon=epsilon)
    import tensorflow as tf

    dtype = keras.backend.result_type(x.dtype, "float32")
    tensors = (tf.cast(tensor, dtype) for tensor in (x, gamma, beta))  # also reads variables

    def run(x: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Callable[[Tensor], Any]]:
        mean = ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(x - mean), axis=-1, keepdims=True)
        inverse_std = ops.rsqrt(variance + epsilon)
        scale = inverse_std * gamma

        # The two means are the gradients through the mean and the variance.
        def gradient(upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            leading_axes = tuple(range(len(x.shape) - 1))
            normalized = (x - mean) * inverse_std
            products = upstream * normalized
            upstream_normalized = upstream * gamma
            mean_upstream = ops.mean(upstream_normalized, axis=-1, keepdims=True)
            mean_product = ops.mean(products * gamma, axis=-1, keepdims=True)
            centered = upstream_normalized - mean_upstream - normalized * mean_product
            gradient_gamma = ops.sum(products, axis=leading_axes)
            return centered * inverse_std, gradient_gamma, ops.sum(upstream, axis=leading_axes)

        return x * scale + (-mean * scale + beta), gradient

    return ops.cast(ops.custom_gradient(run)(*tensors), x.dtype)


def _broadcasts_to_shape(mask: Tensor, x: Tensor) -> bool:
    """Return whether the mask broadcasts to the shape of `x`.

    Sizes that are unknown in both count as equal.
    """
    mask_shape, shape = tuple(mask.shape), tuple(x.shape)
    if len(mask_shape) > len(shape):
        return False
    pairs = zip(reversed(mask_shape), reversed(shape), strict=False)
    return all(mask_size in (1, size) for mask_size, size in pairs)
