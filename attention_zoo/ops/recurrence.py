"""A loop over time that has gradients and compiles, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

Tensor = Any
Nest = Any
Step = Callable[[Nest, Nest], tuple[Nest, Nest]]


def scan(step: Step, state: Nest, inputs: Nest, like: Nest) -> tuple[Nest, Nest]:
    """Runs `state, outputs_t = step(state, inputs_t)` along the first axis of `inputs`.

    Args:
        step: reads and returns nests of tensors of constant shapes and dtypes.
        state: the first state.
        inputs: nest of `(T, ...)`.
        like: a nest of tensors with the structure, shapes and dtypes of `outputs_t`.

    Returns:
        The last state, and the outputs as a nest of `(T, ...)`.
    """
    if keras.backend.backend() == "tensorflow":
        return _scan_tensorflow(step, state, inputs, like)
    return ops.scan(step, state, inputs)


def _scan_tensorflow(step: Step, state: Nest, inputs: Nest, like: Nest) -> tuple[Nest, Nest]:
    """`while_loop` over TensorArrays; `maximum_iterations` is what gives XLA its gradient."""
    import tensorflow as tf

    leaves = tree.flatten(inputs)
    length = ops.shape(leaves[0])[0]
    if leaves[0].shape[0] == 0:  # XLA refuses to read from an array of none
        none = tree.map_structure(lambda x: ops.zeros((0, *ops.shape(x)), x.dtype), like)
        return state, none
    sources = [tf.TensorArray(x.dtype, length).unstack(x) for x in leaves]
    sinks = [
        tf.TensorArray(x.dtype, length, element_shape=x.shape, clear_after_read=False)
        for x in tree.flatten(like)
    ]

    def body(t: Tensor, flat: list[Tensor], sinks: list[Any]) -> tuple[Tensor, list, list]:
        now = tree.pack_sequence_as(inputs, [source.read(t) for source in sources])
        new, outputs = step(tree.pack_sequence_as(state, flat), now)
        written = [sink.write(t, x) for sink, x in zip(sinks, tree.flatten(outputs), strict=True)]
        return t + 1, tree.flatten(new), written

    begin = (tf.constant(0), tree.flatten(state), sinks)
    _, flat, sinks = tf.while_loop(lambda t, *_: t < length, body, begin, maximum_iterations=length)
    stacked = [sink.stack() for sink in sinks]
    return tree.pack_sequence_as(state, flat), tree.pack_sequence_as(like, stacked)
