"""Loops that compile on every backend; all but `revise` are differentiable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

from attention_zoo.typing import Tensor

Nest = Any
Step = Callable[[Nest, Nest], tuple[Nest, Nest]]


def scan(step: Step, state: Nest, inputs: Nest, like: Nest) -> tuple[Nest, Nest]:
    """Run `state, outputs_t = step(state, inputs_t)` along the first axis of `inputs`.

    Args:
        step: takes and returns nests of tensors of constant shapes and dtypes.
        state: the initial state.
        inputs: nest of `(T, ...)`.
        like: a nest of tensors with the structure, shapes and dtypes of `outputs_t`.

    Returns:
        The final state, and the outputs as a nest of `(T, ...)`.
    """
    if keras.backend.backend() == "tensorflow":
        return _scan_tensorflow(step, state, inputs, like)
    return ops.scan(step, state, inputs)


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
    reach = 1  # inflow_j: what `reach` entries up to j add to y_j; decay_j: product of decays
    while reach < length:
        inflow = inflow + decay * _shift(inflow, reach)
        decay = decay * _shift(decay, reach)
        reach *= 2
    return inflow


def _shift(x: Tensor, by: int) -> Tensor:
    """Shift the last axis: `x_{j-by}` at j, 0 at the first `by` entries."""
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
    """Run `scan` by `while_loop` and TensorArrays; XLA's gradient needs `maximum_iterations`."""
    import tensorflow as tf

    leaves = tree.flatten(inputs)
    length = ops.shape(leaves[0])[0]
    if leaves[0].shape[0] == 0:  # XLA cannot read from an empty TensorArray
        none = tree.map_structure(lambda x: ops.zeros((0, *ops.shape(x)), x.dtype), like)
        return state, none
    sources = [tf.TensorArray(x.dtype, length).unstack(x) for x in leaves]
    known = leaves[0].shape[0] is not None
    size = length if known else tf.maximum(length, 1)
    sinks = [
        tf.TensorArray(x.dtype, size, element_shape=x.shape, clear_after_read=False)
        for x in tree.flatten(like)
    ]
    if not known:  # an empty TensorArray has no row shape unless a row was written
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
    """While `going(state)`, run `state, now = step(state, now)` on one row of each table, in place.

    Rows can be updated repeatedly, and tables are not copied. The loop has no gradient.

    Args:
        going: returns whether to run another step, a scalar boolean.
        rows: returns the index of the row in each table that the step updates, scalar integers.
        step: takes and returns the state, and a tuple of one row per table.
        state: a nest of tensors of constant shapes.
        tables: `(N, ...)` each; N and the row shapes may differ.

    Returns:
        The updated tables.
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
    """Run `revise` on TensorArrays, which are updated in place; slices of tensors are not."""
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
