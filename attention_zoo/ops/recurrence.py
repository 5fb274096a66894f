"""Loops that compile on every backend; all but `update_rows` are differentiable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

from attention_zoo.ops.arguments import static_size
from attention_zoo.typing import Tensor

Nest = Any
Step = Callable[[Nest, Nest], tuple[Nest, Nest]]


def scan(
    step: Step,
    state: Nest,
    inputs: Nest,
    like: Nest,
    reverse: bool = False,
    overlap: bool = True,
) -> tuple[Nest, Nest]:
    """Run `state, outputs_t = step(state, inputs_t)` along the first axis of `inputs`.

    Args:
        step: takes and returns nests of tensors of constant shapes and dtypes.
        state: the initial state.
        inputs: nest of `(T, ...)`.
        like: a nest of tensors with the structure, shapes and dtypes of `outputs_t`.
        reverse: whether to run from the last t to the first; outputs keep the order of the inputs.
        overlap: whether TensorFlow may start steps before earlier ones are complete, which needs
            memory for up to ten steps.

    Returns:
        The final state, and the outputs as a nest of `(T, ...)`.
    """
    if keras.backend.backend() == "tensorflow":
        return _scan_tensorflow(step, state, inputs, like, reverse, overlap)
    return ops.scan(step, state, inputs, reverse=reverse)


def shift(x: Tensor, offset: int = 1, axis: int = -1) -> Tensor:
    """Shift entries along an axis by `offset` positions, at least 1; the first `offset` are 0.

    Unlike `ops.roll`, it compiles under XLA if the axis has a dynamic length.
    """
    axis %= len(x.shape)
    padded = ops.pad(x, [(offset, 0) if n == axis else (0, 0) for n in range(len(x.shape))])
    return padded[(slice(None),) * axis + (slice(None, -offset),)]


def linear_recurrence(decay: Tensor, inflow: Tensor, parallel: bool = True) -> Tensor:
    """Compute `y_j = decay_j y_{j-1} + inflow_j` along the last axis, from `y_{-1} = 0`.

    It only adds and multiplies its inputs: with decays in [0, 1] nothing overflows, and only
    negligible values underflow to 0. (The closed form divides by products of decays, which vanish
    in long rows.) The gradient is the same recurrence, run backward, so only y is stored for it.

    Args:
        decay: `(..., S)`; its first entry is ignored.
        inflow: `(..., S)`.
        parallel: if S is static, take log2(S) steps, each of which doubles the number of entries
            that are summed, O(S log S) in all; otherwise entry by entry, O(S).
    """
    if inflow.shape[-1] == 0:
        return inflow

    def run(decay: Tensor, inflow: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        results = _compute_recurrence(decay, inflow, parallel)

        def gradient(*args: Tensor, upstream: Tensor | None = None) -> tuple[Tensor, Tensor]:
            upstream = args[0] if upstream is None else upstream
            decay_back = shift(ops.flip(decay, axis=-1))
            flipped = ops.flip(upstream, axis=-1)
            by_inflow = ops.flip(_compute_recurrence(decay_back, flipped, parallel), axis=-1)
            return by_inflow * shift(results), by_inflow

        return results, gradient

    return ops.custom_gradient(run)(decay, inflow)


def _compute_recurrence(decay: Tensor, inflow: Tensor, parallel: bool) -> Tensor:
    length = inflow.shape[-1]
    if static_size(length) is None or not parallel:
        return _compute_sequentially(decay, inflow)
    span = 1  # inflow_j: what `span` entries up to j add to y_j; decay_j: product of decays
    while span < length:
        inflow = inflow + decay * shift(inflow, span)
        decay = decay * shift(decay, span)
        span *= 2
    return inflow


def _compute_sequentially(decay: Tensor, inflow: Tensor) -> Tensor:
    def step(total: Tensor, step_inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        decay, inflow = step_inputs
        total = decay * total + inflow
        return total, total

    zeros = ops.zeros_like(ops.sum(inflow, axis=-1))
    inputs = (ops.moveaxis(decay, -1, 0), ops.moveaxis(inflow, -1, 0))
    _, results = scan(step, zeros, inputs, like=zeros)
    return ops.moveaxis(results, 0, -1)


def _scan_tensorflow(
    step: Step, state: Nest, inputs: Nest, like: Nest, reverse: bool, overlap: bool
) -> tuple[Nest, Nest]:
    """Run `scan` by `while_loop` and TensorArrays; XLA's gradient needs `maximum_iterations`."""
    import tensorflow as tf

    leaves = tree.flatten(inputs)
    length = ops.shape(leaves[0])[0]
    if leaves[0].shape[0] == 0:  # XLA cannot read from an empty TensorArray
        empty = tree.map_structure(lambda x: ops.zeros((0, *ops.shape(x)), x.dtype), like)
        return state, empty
    sources = [tf.TensorArray(x.dtype, length).unstack(x) for x in leaves]
    is_static = leaves[0].shape[0] is not None
    size = length if is_static else tf.maximum(length, 1)
    sinks = []
    for x in tree.flatten(like):
        sink = tf.TensorArray(x.dtype, size, element_shape=x.shape, clear_after_read=False)
        # an empty TensorArray has no row shape unless a row was written
        sinks.append(sink if is_static else sink.write(0, x))

    def body(t: Tensor, flat: list[Tensor], sinks: list[Any]) -> tuple[Tensor, list, list]:
        row = length - 1 - t if reverse else t
        step_inputs = tree.pack_sequence_as(inputs, [source.read(row) for source in sources])
        new, outputs = step(tree.pack_sequence_as(state, flat), step_inputs)
        pairs = zip(sinks, tree.flatten(outputs), strict=True)
        return t + 1, tree.flatten(new), [sink.write(row, x) for sink, x in pairs]

    def is_running(t: Tensor, *_: Any) -> Tensor:
        return t < length

    loop_vars = (tf.constant(0), tree.flatten(state), sinks)
    options = {"maximum_iterations": length, "parallel_iterations": 10 if overlap else 1}
    _, flat, sinks = tf.while_loop(is_running, body, loop_vars, **options)
    stacked = [sink.stack() if is_static else sink.stack()[:length] for sink in sinks]
    return tree.pack_sequence_as(state, flat), tree.pack_sequence_as(like, stacked)


def update_rows(
    condition: Callable[[Nest], Tensor],
    rows: Callable[[Nest], tuple[Tensor, ...]],
    step: Step,
    state: Nest,
    tables: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """While `condition(state)`, run `state, rows = step(state, rows)` on rows of tables, in place.

    Rows can be updated repeatedly, and tables are not copied. The loop has no gradient.

    Args:
        condition: returns whether to run another step, a scalar boolean.
        rows: returns the index of the row in each table that the step updates, scalar integers.
        step: takes and returns the state, and a tuple of one row per table.
        state: a nest of tensors of constant shapes.
        tables: `(N, ...)` each; N and the row shapes may differ.

    Returns:
        The updated tables.
    """
    if keras.backend.backend() == "tensorflow":
        return _update_rows_tensorflow(condition, rows, step, state, tables)

    def body(state: Nest, tables: tuple[Tensor, ...]) -> tuple[Nest, tuple[Tensor, ...]]:
        index = rows(state)
        state, new = step(state, tuple(x[i] for x, i in zip(tables, index, strict=True)))
        starts = [(i, *(0 for _ in x.shape[1:])) for x, i in zip(tables, index, strict=True)]
        updates = zip(tables, starts, new, strict=True)
        return state, tuple(ops.slice_update(table, i, x[None]) for table, i, x in updates)

    _, tables = ops.while_loop(lambda state, _: condition(state), body, (state, tables))
    return tables


def _update_rows_tensorflow(
    condition: Any, rows: Any, step: Any, state: Nest, tables: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Run `update_rows` on TensorArrays, which are updated in place; slices of tensors are not."""
    import tensorflow as tf

    arrays = [
        tf.TensorArray(x.dtype, ops.shape(x)[0], clear_after_read=False).unstack(x) for x in tables
    ]

    def body(state: Nest, arrays: list[Any]) -> tuple[Nest, list[Any]]:
        index = rows(state)
        state, new = step(state, tuple(a.read(i) for a, i in zip(arrays, index, strict=True)))
        return state, [a.write(i, x) for a, i, x in zip(arrays, index, new, strict=True)]

    _, arrays = tf.while_loop(lambda state, _: condition(state), body, (state, arrays))
    return tuple(array.stack() for array in arrays)
