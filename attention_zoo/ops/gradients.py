"""Gradients of functions of tensors, outside training."""

from __future__ import annotations

from collections.abc import Callable

import keras
from keras import ops

from attention_zoo.typing import Tensor


def gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Compute the gradient of the sum of `function(x)` with respect to x.

    The function runs eagerly and may call Keras layers and models, which must be built. Variables
    are constants. On JAX, updates of variables within the function, such as the states of seed
    generators, are discarded.

    Args:
        function: maps a tensor of the shape of x to a tensor of any shape.
        x: floats of any shape.

    Returns:
        The gradient, in shape and dtype of x; 0 where the function does not depend on x.

    Raises:
        ValueError: x has no floating-point dtype, or the backend is neither TensorFlow nor JAX.

    Example:
        >>> from keras import ops
        >>> from attention_zoo.ops.gradients import gradient
        >>> [float(y) for y in gradient(lambda x: x**2, ops.convert_to_tensor([1.0, 2.0]))]
        [2.0, 4.0]
    """
    x = ops.convert_to_tensor(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    if not keras.backend.is_float_dtype(dtype):
        raise ValueError(f"x must have a floating-point dtype, got {dtype}")
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _compute_with_tensorflow(function, x)
    if backend == "jax":
        return _compute_with_jax(function, x)
    raise ValueError(f"gradients need the backend tensorflow or jax, got {backend}")


def _compute_with_tensorflow(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        total = ops.sum(function(x))
    return tf.convert_to_tensor(tape.gradient(total, x, unconnected_gradients="zero"))


def _compute_with_jax(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    import jax

    def compute_sum(x: Tensor) -> Tensor:
        with keras.StatelessScope():  # a variable that keeps a traced value is unusable afterwards
            return ops.sum(function(x))

    return jax.grad(compute_sum)(x)
