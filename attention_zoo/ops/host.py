"""Calls of Python functions from compiled graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops, tree

from attention_zoo.typing import Tensor


def call_on_host(function: Callable[..., Any], tensors: Sequence[Tensor], then: Tensor) -> Tensor:
    """Call a function with the values of tensors as NumPy arrays, for its side effects.

    In a graph, the function is called whenever the graph runs. No gradient flows to the tensors.
    The arrays are read-only, may share memory with the tensors, and may be stored.

    Args:
        function: called with one array for each tensor; its result is ignored.
        tensors: the arguments.
        then: a nest of tensors, returned unchanged; operations on the result run after the call.

    Returns:
        `then`.
    """

    def call(*values: Any) -> None:
        arrays = [np.asarray(ops.convert_to_numpy(value)).view() for value in values]
        for array in arrays:
            array.flags.writeable = False
        function(*arrays)

    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _call_from_tensorflow(call, tensors, then)
    if backend == "jax":
        _call_from_jax(call, tensors)
    else:
        call(*tensors)
    return then


def wait_for_host_calls() -> None:
    """Wait for calls of functions by graphs that run asynchronously, as on JAX."""
    if keras.backend.backend() == "jax":
        import jax

        jax.effects_barrier()


def _call_from_tensorflow(
    function: Callable[..., Any], tensors: Sequence[Tensor], then: Tensor
) -> Tensor:
    import tensorflow as tf

    if tf.executing_eagerly():
        function(*tensors)
        return then
    called = tf.numpy_function(function, [tf.stop_gradient(x) for x in tensors], [])
    with tf.control_dependencies([called]):
        return tree.map_structure(tf.identity, then)


def _call_from_jax(function: Callable[..., Any], tensors: Sequence[Tensor]) -> None:
    import jax

    if not any(isinstance(x, jax.core.Tracer) for x in tensors):
        function(*tensors)
        return

    def copy(*arrays: Any) -> None:  # XLA reuses the memory of the arguments after the call
        function(*(np.array(array) for array in arrays))

    stopped = [jax.lax.stop_gradient(x) for x in tensors]
    jax.experimental.io_callback(copy, None, *stopped, ordered=True)
