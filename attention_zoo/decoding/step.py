"""The interface of a decoder step, and shape checks before the graph runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo import ops as zoo_ops


class StepOutput(NamedTuple):
    """The output of one decoder step, for N hypotheses of each of B sources.

    Attributes:
        logits: `(B, N, V)`, unnormalized scores of the next token.
        state: a nest of tensors `(B, N, ...)`, passed to the next step; see `InPlace` for large
            ones.
        attention: `(B, N, S)`, the attention weights of this step, or None.
        hidden: `(B, N, D)`, the decoder's output before the vocabulary projection, or None.
    """

    logits: Any
    state: Any
    attention: Any = None
    hidden: Any = None


class InPlace(NamedTuple):
    """State that a search passes on without reordering it, such as a KV cache.

    Other leaves are repeated for the hypotheses and reordered with them at every step. Entries of
    an `InPlace` tensor stay where the step stored them, whichever hypotheses descend from them. The
    step allocates space for all hypotheses in advance, stores hypothesis n at index n, and keeps
    the indices of each hypothesis's ancestors in a separate small leaf.

    Attributes:
        value: a nest of tensors `(B, ...)`, in any layout.
    """

    value: Any


StepFunction = Callable[[Any, Any], StepOutput]
"""`step(tokens (B, N) int32, state) -> StepOutput`. N is 1 at the first step of every search."""


def mark_in_place(state: Any) -> list[bool]:
    """Return whether each leaf of a state is `InPlace`."""

    def mark(part: Any) -> Any:
        if isinstance(part, InPlace):
            return keras.tree.map_structure(lambda leaf: True, part)
        return None if keras.tree.is_nested(part) else False

    marks: list[bool] = keras.tree.flatten(keras.tree.traverse(mark, state))
    return marks


def map_state(function: Callable[[Any], Any], state: Any) -> list[Any]:
    """Return the leaves of a state, after a function of those that are not `InPlace`."""
    leaves = zip(keras.tree.flatten(state), mark_in_place(state), strict=True)
    return [leaf if in_place else function(leaf) for leaf, in_place in leaves]


def expand_state(state: Any, batch_size: Any) -> Any:
    """Expand the state `(B, ...)` to `(B, 1, ...)`, except for `InPlace` leaves.

    Raises ValueError unless the first axis of every leaf is the batch.
    """
    for leaf in keras.tree.flatten(state):
        if leaf is None:
            raise ValueError(
                "each leaf of the state must be a tensor (B, ...), got None: use () for no state"
            )
        check_shape("a leaf of the initial state", leaf, (batch_size, ...))
    leaves = map_state(lambda leaf: ops.expand_dims(leaf, 1), state)
    return keras.tree.pack_sequence_as(state, leaves)


def check_type(output: Any) -> None:
    """Raise ValueError unless a step returned a `StepOutput`."""
    if not isinstance(output, StepOutput):
        raise ValueError(f"step must return a StepOutput, got {type(output).__name__}")


def check_output(output: Any, state: Any, batch_size: Any, end_token: int) -> None:
    """Raise ValueError if the output of the first step does not fit the search."""
    check_type(output)
    check_shape("the logits of step", output.logits, (batch_size, 1, None))
    *_, vocabulary = shape = output.logits.shape
    if vocabulary is None:
        raise ValueError(f"the logits of step need a static vocabulary axis, got shape {shape}")
    if end_token >= vocabulary:
        raise ValueError(
            f"end_token must be below the vocabulary size {vocabulary}, got {end_token}"
        )
    if output.attention is not None:
        check_shape("the attention of step", output.attention, (batch_size, 1, None))
    leaves, initial = keras.tree.flatten(output.state), keras.tree.flatten(state)
    if len(leaves) != len(initial):
        raise ValueError(f"step must return a state of {len(initial)} tensors, got {len(leaves)}")
    for leaf, in_place in zip(leaves, mark_in_place(output.state), strict=True):
        expected = (batch_size, ...) if in_place else (batch_size, 1, ...)
        check_shape("a leaf of the state of step", leaf, expected)


def find_growing_axes(initial: Any, first: Any) -> list[set[int]]:
    """Return the axes of each leaf of a state whose size changes at the first step.

    An example is the axis of time steps in a KV cache that is not compiled.
    """
    pairs = zip(keras.tree.flatten(initial), keras.tree.flatten(first), strict=True)
    shapes = [enumerate(zip(x.shape, y.shape, strict=True)) for x, y in pairs]
    return [{axis for axis, (before, now) in sizes if before != now} for sizes in shapes]


def check_next_output(
    output: Any, first: StepOutput, count: int, growing_axes: list[set[int]]
) -> StepOutput:
    """Return a later step's output; raise ValueError if its structure differs from the first one's.

    Args:
        output: output of the step for `count` hypotheses.
        first: output of the first step, for one hypothesis.
        count: N.
        growing_axes: axes of each leaf of the state whose size is not checked.
    """
    check_type(output)
    in_place_leaves = mark_in_place(first.state)
    leaves, before = keras.tree.flatten(output.state), keras.tree.flatten(first.state)
    if len(leaves) != len(before) or mark_in_place(output.state) != in_place_leaves:
        raise ValueError(
            f"the state of step must keep its structure, got {len(before)} tensors, "
            f"then {len(leaves)}"
        )
    pairs: list[tuple[str, Any, Any, bool, set[int]]] = []
    for name in ("logits", "attention", "hidden"):
        now, then = getattr(output, name), getattr(first, name)
        if (now is None) != (then is None):
            raise ValueError(
                f"step must return {name} at every step or never, got it at some steps only"
            )
        if then is not None:
            pairs.append((f"the {name} of step", now, then, False, set()))
    states = zip(leaves, before, in_place_leaves, growing_axes, strict=True)
    pairs += [("a leaf of the state of step", *one) for one in states]
    for what, now, then, in_place, axes in pairs:
        sizes = [
            size if isinstance(size, int) and axis not in axes else None
            for axis, size in enumerate(then.shape)
        ]
        check_shape(what, now, tuple(sizes if in_place else [sizes[0], count, *sizes[2:]]))
        dtypes = [keras.backend.standardize_dtype(x.dtype) for x in (then, now)]
        if dtypes[0] != dtypes[1]:
            raise ValueError(f"{what} must have one dtype, got {dtypes[0]}, then {dtypes[1]}")
    return output


def check_shape(what: str, x: Any, expected: tuple[Any, ...]) -> None:
    """Raise ValueError if the static shape of `x` does not match; see `ops.check_shape`."""
    zoo_ops.check_shape(what, getattr(x, "shape", ()), expected)
