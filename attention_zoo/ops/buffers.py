"""Buffers that a loop fills step by step, such as a KV cache.

XLA needs tensors of constant shape, so a compiled buffer has its full size from the start.
Elsewhere (TensorFlow eager or in a graph) it grows with the entries: memory and time depend on the
number of steps, not on their limit, and graphs contain no XLA-only operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from attention_zoo.typing import Tensor


def is_compiled() -> bool:
    """Return whether XLA compiles what is being traced; always True on JAX."""
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

    return not tf.executing_eagerly() and bool(
        GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
    )


def empty_buffer(shape: Sequence[Any], axis: int, dtype: str, fill: int = 0) -> Tensor:
    """Return a buffer without entries.

    Args:
        shape: shape of the full buffer; the size of `axis` is the maximum number of entries.
        axis: the axis that entries are appended to.
        dtype: its dtype.
        fill: the value at positions without an entry, in compiled buffers.
    """
    if is_compiled():
        return ops.full(tuple(shape), fill, dtype=dtype)
    import tensorflow as tf

    sizes = [0 if n == axis else size for n, size in enumerate(shape)]
    static = [size if isinstance(size, int) and n != axis else None for n, size in enumerate(shape)]
    buffer = ops.zeros(sizes, dtype=dtype)
    return tf.compat.v1.placeholder_with_default(buffer, static)  # without a static size


def append(buffer: Tensor, entries: Tensor, position: Any, axis: int) -> Tensor:
    """Return the buffer with entries appended along an axis.

    `position` is the number of entries so far.
    """
    if is_compiled():
        start = [position if n == axis else 0 for n in range(len(buffer.shape))]
        return ops.slice_update(buffer, start, entries)
    return ops.concatenate([buffer, entries], axis=axis)


def replace_row(x: Tensor, row: Tensor, position: Any) -> Tensor:
    """Return `x (N, ...)` with `row (...)` at a position of the first axis."""
    if is_compiled():
        return ops.slice_update(x, [position, *[0] * len(row.shape)], row[None])
    is_row = ops.arange(ops.shape(x)[0], dtype="int32") == position
    return ops.where(ops.reshape(is_row, (-1, *[1] * len(row.shape))), row, x)
