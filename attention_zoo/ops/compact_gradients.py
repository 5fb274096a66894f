"""Operations whose gradients take few graph operations although the shapes are dynamic.

TensorFlow's gradient of a broadcasting operation sums over axes that it finds at run time, which
takes about ten graph operations if any size is unknown. In the operations of this file the shape of
the result is that of `x`, so that no such sums are needed. The values are the same.
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
    """Trace the operations of this file with their own gradients, on TensorFlow.

    Without it they consist of plain operations, which inference, exports and forward-mode
    derivatives need. It applies to the current thread.
    """
    before = _uses_compact_gradients()
    _state.is_used = keras.backend.backend() == "tensorflow"
    try:
        yield
    finally:
        _state.is_used = before


def _uses_compact_gradients() -> bool:
    return getattr(_state, "is_used", False)


def add(x: Tensor, y: Tensor) -> Tensor:
    """Add two tensors of the same shape and dtype."""
    if not _uses_compact_gradients():
        return x + y
    import tensorflow as tf

    return tf.add_n([x, y])


def keep_where(mask: Tensor, x: Tensor) -> Tensor:
    """Return `x` where the mask is True, and 0 elsewhere, also for NaN and Inf.

    Args:
        mask: booleans that broadcast to the shape of `x`.
        x: any shape.
    """
    if not (_uses_compact_gradients() and _has_shape_of_result(x, mask)):
        return _keep_where(mask, x)

    def run(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return _keep_where(mask, x), lambda upstream: _keep_where(mask, upstream)

    return ops.custom_gradient(run)(x)


def _keep_where(mask: Tensor, x: Tensor) -> Tensor:
    return ops.where(mask, x, ops.zeros((), x.dtype))


def softmax(scores: Tensor, mask: Tensor, compute: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return `compute(scores, mask)`, a masked softmax over the last axis.

    Args:
        scores: `(..., S)`.
        mask: booleans that broadcast to the shape of the scores.
        compute: returns weights, 0 where masked.
    """
    if not (_uses_compact_gradients() and _has_shape_of_result(scores, mask)):
        return compute(scores, mask)

    def run(scores: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        weights = compute(scores, mask)

        def gradient(upstream: Tensor) -> Tensor:
            upstream = _keep_where(mask, upstream)
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
    dtype = keras.backend.result_type(x.dtype, "float32")
    tensors = (ops.convert_to_tensor(tensor, dtype) for tensor in (ops.cast(x, dtype), gamma, beta))

    def run(x: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Callable[[Tensor], Any]]:
        mean = ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(x - mean), axis=-1, keepdims=True)
        inverse = ops.rsqrt(variance + epsilon)
        scale = inverse * gamma

        def gradient(upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            rows = tuple(range(len(x.shape) - 1))
            normalized = (x - mean) * inverse
            products = upstream * normalized
            scaled = upstream * gamma
            center = ops.mean(scaled, axis=-1, keepdims=True)
            slope = ops.mean(products * gamma, axis=-1, keepdims=True)
            gradient_x = (scaled - center - normalized * slope) * inverse
            return gradient_x, ops.sum(products, axis=rows), ops.sum(upstream, axis=rows)

        return x * scale + (-mean * scale + beta), gradient

    return ops.cast(ops.custom_gradient(run)(*tensors), x.dtype)


def _has_shape_of_result(x: Tensor, mask: Tensor) -> bool:
    """Return whether the mask broadcasts to the shape of `x`; unknown sizes count as equal."""
    sizes, lengths = tuple(mask.shape), tuple(x.shape)
    if len(sizes) > len(lengths):
        return False
    pairs = zip(reversed(sizes), reversed(lengths), strict=False)
    return all(size in (1, length) for size, length in pairs)
