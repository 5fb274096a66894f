"""Inputs of convolutions, which fail for an empty batch."""

from __future__ import annotations

from keras import ops

from attention_zoo.typing import Tensor


def pad_empty_batch(x: Tensor) -> Tensor:
    """Return the inputs, or one input of zeros for an empty batch.

    TensorFlow's oneDNN convolution returns an empty batch unchanged, in a wrong shape.

    Args:
        x: `(B, ...)`.
    """
    rows, *sides = ops.shape(x)
    known = isinstance(rows, int)
    if known and rows:
        return x
    num_added = 1 if known else 1 - ops.minimum(rows, 1)
    return ops.concatenate([x, ops.zeros((num_added, *sides), x.dtype)], axis=0)
