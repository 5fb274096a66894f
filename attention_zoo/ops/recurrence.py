"""Loops over time that have gradients and compile, on every backend."""

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


def linear_recurrence(decay: Tensor, inflow: Tensor, parallel: bool = True) -> Tensor:
    """`y_j = decay_j y_{j-1} + inflow_j` along the last axis, from `y_{-1} = 0`.

    Only sums and products of what is given: with decays in [0, 1] nothing overflows, and what
    underflows to 0 is that small. (The closed form divides by products of decays, which vanish in
    a long row.) The gradient is such a recurrence too, run from the end, and so nothing but y is
    kept for it.

    Args:
        decay: `(..., S)`; its first place counts for nothing.
        inflow: `(..., S)`.
        parallel: where S is known, take log2(S) steps, in each of which every place takes in
            twice as many before it, O(S log S) in all; else one place after the other, O(S).
    """
    if inflow.shape[-1] == 0:
        return inflow

    def run(decay: Tensor, inflow: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        results = _recur(decay, inflow, parallel)

        def gradient(*given: Tensor, upstream: Tensor | None = None) -> tuple[Tensor, Tensor]:
            upstream = given[0] if upstream is None else upstream
            back = ops.roll(ops.flip(decay, axis=-1), 1, axis=-1)
            by_inflow = ops.flip(_recur(back, ops.flip(upstream, axis=-1), parallel), axis=-1)
            return by_inflow * _shift(results, 1), by_inflow

        return results, gradient

    return ops.custom_gradient(run)(decay, inflow)


def _recur(decay: Tensor, inflow: Tensor, parallel: bool) -> Tensor:
    length = inflow.shape[-1]
    if length is None or not parallel:
        return _one_by_one(decay, inflow)
    reach = 1  # inflow_j holds what reach places up to j add to y_j, decay_j what they let pass
    while reach < length:
        inflow = inflow + decay * _shift(inflow, reach)
        decay = decay * _shift(decay, reach)
        reach *= 2
    return inflow


def _shift(x: Tensor, by: int) -> Tensor:
    """`x_{j-by}` at j of the last axis, 0 at the first places."""
    return ops.pad(x[..., :-by], ((0, 0),) * (len(x.shape) - 1) + ((by, 0),))


def _one_by_one(decay: Tensor, inflow: Tensor) -> Tensor:
    def place(so_far: Tensor, now: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        decay, inflow = now
        so_far = decay * so_far + inflow
        return so_far, so_far

    nothing = ops.zeros_like(ops.sum(inflow, axis=-1))
    places = (ops.moveaxis(decay, -1, 0), ops.moveaxis(inflow, -1, 0))
    _, results = scan(place, nothing, places, like=nothing)
    return ops.moveaxis(results, 0, -1)


def _scan_tensorflow(step: Step, state: Nest, inputs: Nest, like: Nest) -> tuple[Nest, Nest]:
    """`while_loop` over TensorArrays; `maximum_iterations` is what gives XLA its gradient."""
    import tensorflow as tf

    leaves = tree.flatten(inputs)
    length = ops.shape(leaves[0])[0]
    if leaves[0].shape[0] == 0:  # XLA refuses to read from an array of none
        none = tree.map_structure(lambda x: ops.zeros((0, *ops.shape(x)), x.dtype), like)
        return state, none
    sources = [tf.TensorArray(x.dtype, length).unstack(x) for x in leaves]
    known = leaves[0].shape[0] is not None
    size = length if known else tf.maximum(length, 1)
    sinks = [
        tf.TensorArray(x.dtype, size, element_shape=x.shape, clear_after_read=False)
        for x in tree.flatten(like)
    ]
    if not known:  # an array of none, in which nothing stands, cannot tell the shape of its rows
        sinks = [sink.write(0, x) for sink, x in zip(sinks, tree.flatten(like), strict=True)]

    def body(t: Tensor, flat: list[Tensor], sinks: list[Any]) -> tuple[Tensor, list, list]:
        now = tree.pack_sequence_as(inputs, [source.read(t) for source in sources])
        new, outputs = step(tree.pack_sequence_as(state, flat), now)
        written = [sink.write(t, x) for sink, x in zip(sinks, tree.flatten(outputs), strict=True)]
        return t + 1, tree.flatten(new), written

    begin = (tf.constant(0), tree.flatten(state), sinks)
    _, flat, sinks = tf.while_loop(lambda t, *_: t < length, body, begin, maximum_iterations=length)
    stacked = [sink.stack() if known else sink.stack()[:length] for sink in sinks]
    return tree.pack_sequence_as(state, flat), tree.pack_sequence_as(like, stacked)


def revise(
    going: Callable[[Nest], Tensor],
    rows: Callable[[Nest], tuple[Tensor, ...]],
    step: Step,
    state: Nest,
    tables: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """While `going(state)`: `state, now = step(state, now)` of one row of every table, in place.

    A loop that comes back to what it wrote, and copies no table for it. It has no gradient.

    Args:
        going: whether there is another step, a scalar boolean.
        rows: which row of each table the step reads and writes, scalar integers.
        step: reads and returns the state, and the rows of the tables as a tuple.
        state: a nest of tensors of constant shapes.
        tables: `(N, ...)` each, with rows of their own.

    Returns:
        The tables.
    """
    if keras.backend.backend() == "tensorflow":
        return _revise_tensorflow(going, rows, step, state, tables)

    def body(state: Nest, tables: tuple[Tensor, ...]) -> tuple[Nest, tuple[Tensor, ...]]:
        at = rows(state)
        state, now = step(state, tuple(table[i] for table, i in zip(tables, at, strict=True)))
        starts = [(i, *(0 for _ in table.shape[1:])) for table, i in zip(tables, at, strict=True)]
        changed = zip(tables, starts, now, strict=True)
        return state, tuple(ops.slice_update(table, i, x[None]) for table, i, x in changed)

    _, tables = ops.while_loop(lambda state, _: going(state), body, (state, tables))
    return tables


def _revise_tensorflow(
    going: Any, rows: Any, step: Any, state: Nest, tables: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """TensorArrays are written in place; slices of a tensor in a loop are not."""
    import tensorflow as tf

    arrays = [
        tf.TensorArray(x.dtype, ops.shape(x)[0], clear_after_read=False).unstack(x) for x in tables
    ]

    def body(state: Nest, arrays: list[Any]) -> tuple[Nest, list[Any]]:
        at = rows(state)
        state, now = step(state, tuple(a.read(i) for a, i in zip(arrays, at, strict=True)))
        return state, [a.write(i, x) for a, i, x in zip(arrays, at, now, strict=True)]

    _, arrays = tf.while_loop(lambda state, _: going(state), body, (state, arrays))
    return tuple(array.stack() for array in arrays)
