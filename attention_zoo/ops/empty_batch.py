"""Padding of empty batches, which convolutions do not support."""

from __future__ import annotations

import keras
from keras import ops

from attention_zoo.typing import Tensor


def pad_empty_batch(x: Tensor) -> Tensor:
    """Return the inputs, or one input of zeros for an empty batch.

    TensorFlow's oneDNN convolution returns an empty batch unchanged, in a wrong shape.

    Args:
        x: `(B, ...)`.

    Returns:
        `(max(B, 1), ...)`.
    """
    batch_size, *sides = ops.shape(x)
    known = isinstance(batch_size, int)
    # On JAX, an unknown size is that of a symbolic call, and the convolution has no such defect.
    if (known and batch_size) or (not known and keras.backend.backend() != "tensorflow"):
        return x
    num_added = 1 if known else 1 - ops.minimum(batch_size, 1)
    return ops.concatenate([x, ops.zeros((num_added, *sides), x.dtype)], axis=0)
