"""Keras's recurrent cells with the input projection hoisted out of the loop.

A Keras cell computes `inputs @ kernel + state @ recurrent_kernel` at every step. Here `hoist`
computes the input part for all steps at once, and `step` adds the rest in the loop. Tensors fed
back from the previous step (`feedback`) are further input features. Cells of other classes, and
cells with dropout in training, run unchanged.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.ops import check_shape, project
from attention_zoo.typing import Tensor

States = tuple[Tensor, ...]


class CellStepper:
    """Any cell, called once per step."""

    def __init__(self, cell: Any, width: int, training: bool) -> None:
        self.cell, self.width, self.training = cell, width, training

    def kernels(self, dtype: str) -> States:
        """Return the weights as the loop uses them, computed once before it."""
        return ()

    def hoist(self, inputs: Tensor) -> Tensor:
        """Compute the part of a step that depends only on inputs `(..., E)`, once for all steps."""
        return inputs

    def step(
        self, hoisted: Tensor, feedback: list[Tensor], states: States, kernels: States
    ) -> tuple[Tensor, States]:
        """Run one step. All tensors have the same leading axes, any number of them."""
        inputs = concatenate(hoisted, *feedback)
        lead = ops.shape(inputs)[:-1]
        flat = [ops.reshape(x, (-1, x.shape[-1])) for x in (inputs, *states)]
        output, new = self.cell(flat[0], flat[1:], training=self.training)
        _check_output(self.cell, output)
        new = list(new) if isinstance(new, (list, tuple)) else [new]
        shaped = [ops.reshape(x, (*lead, x.shape[-1])) for x in (output, *new)]
        return shaped[0], tuple(shaped[1:])


class _SplitKernelStepper(CellStepper):
    """Cell whose kernel is split into the rows of the inputs and the rows of `feedback`."""

    def hoist(self, inputs: Tensor) -> Tensor:
        kernel = ops.cast(self.cell.kernel, inputs.dtype)[: self.width]
        hoisted = project(inputs, kernel)
        bias = self._input_bias()
        return hoisted if bias is None else hoisted + ops.cast(bias, inputs.dtype)

    def _input_bias(self) -> Tensor | None:
        return self.cell.bias

    def kernels(self, dtype: str) -> States:
        feedback = ops.cast(self.cell.kernel, dtype)[self.width :]
        return (ops.concatenate([feedback, ops.cast(self.cell.recurrent_kernel, dtype)], axis=0),)


class LSTMStepper(_SplitKernelStepper):
    """`LSTMCell`: gates i, f, c, o."""

    def step(
        self, hoisted: Tensor, feedback: list[Tensor], states: States, kernels: States
    ) -> tuple[Tensor, States]:
        h, c = states
        z = hoisted + project(concatenate(*feedback, h), kernels[0])
        i, f, g, o = ops.split(z, 4, axis=-1)
        gate, activation = self.cell.recurrent_activation, self.cell.activation
        c = gate(f) * c + gate(i) * activation(g)
        h = gate(o) * activation(c)
        return h, (h, c)


class SimpleRNNStepper(_SplitKernelStepper):
    """`SimpleRNNCell`."""

    def step(
        self, hoisted: Tensor, feedback: list[Tensor], states: States, kernels: States
    ) -> tuple[Tensor, States]:
        h = concatenate(*feedback, states[0])
        h = self.cell.activation(hoisted + project(h, kernels[0]))
        return h, (h,)


class GRUStepper(_SplitKernelStepper):
    """`GRUCell`: gates z, r, h, with the reset after or before the recurrent product."""

    def _input_bias(self) -> Tensor | None:
        bias = self.cell.bias
        return bias[0] if bias is not None and self.cell.reset_after else bias

    def kernels(self, dtype: str) -> States:
        feedback = ops.cast(self.cell.kernel, dtype)[self.width :]
        bias, recurrent = self.cell.bias, ops.cast(self.cell.recurrent_kernel, dtype)
        if self.cell.reset_after:
            inner = () if bias is None else (ops.cast(bias, dtype)[1],)
            return feedback, recurrent, *inner
        split = 2 * self.cell.units
        return feedback, recurrent[:, :split], recurrent[:, split:]

    def step(
        self, hoisted: Tensor, feedback: list[Tensor], states: States, kernels: States
    ) -> tuple[Tensor, States]:
        h, units = states[0], self.cell.units
        gate, activation = self.cell.recurrent_activation, self.cell.activation
        x = hoisted
        if feedback:
            x = x + project(concatenate(*feedback), kernels[0])
        inner = project(h, kernels[1])
        if self.cell.reset_after and len(kernels) == 3:
            inner = inner + kernels[2]
        zr = gate(x[..., : 2 * units] + inner[..., : 2 * units])
        z, r = zr[..., :units], zr[..., units:]
        if self.cell.reset_after:
            candidate = r * inner[..., 2 * units :]
        else:
            candidate = project(r * h, kernels[2])
        h = z * h + (1 - z) * activation(x[..., 2 * units :] + candidate)
        return h, (h,)


_STEPPERS: dict[type, type[CellStepper]] = {
    keras.layers.LSTMCell: LSTMStepper,
    keras.layers.GRUCell: GRUStepper,
    keras.layers.SimpleRNNCell: SimpleRNNStepper,
}


def make_stepper(cell: Any, width: int, training: bool) -> CellStepper:
    """Return the fastest stepper for a built cell whose first `width` features are the inputs."""
    rates = (getattr(cell, "dropout", 0.0), getattr(cell, "recurrent_dropout", 0.0))
    has_dropout = training and any(rates)
    stepper = CellStepper if has_dropout else _STEPPERS.get(type(cell), CellStepper)
    return stepper(cell, width, training)


def concatenate(*tensors: Tensor) -> Tensor:
    """Concatenate one or more tensors along the last axis."""
    return tensors[0] if len(tensors) == 1 else ops.concatenate(tensors, axis=-1)


def list_cells(cell: Any) -> list[Any]:
    """Return a list of a stack's cells, bottom first, or of the single cell."""
    return list(cell.cells) if isinstance(cell, keras.layers.StackedRNNCells) else [cell]


def get_state_sizes(cell: Any) -> list[int]:
    """Return the widths of a single cell's states."""
    size = cell.state_size
    return list(size) if isinstance(size, (list, tuple)) else [size]


def get_output_size(cell: Any) -> int:
    """Return the width of a single cell's output: `output_size`, or that of its first state."""
    size = getattr(cell, "output_size", None)
    return get_state_sizes(cell)[0] if size is None else size


def _check_output(cell: Any, output: Tensor) -> None:
    """Raise ValueError unless a single cell's output has the width of `get_output_size`."""
    width, expected = output.shape[-1], get_output_size(cell)
    if width != expected:
        source = "output_size" if getattr(cell, "output_size", None) else "the first state_size"
        raise ValueError(
            f"{type(cell).__name__} returns outputs of width {width}, but {source} is {expected}. "
            f"Set output_size={width} in the cell."
        )


def make_initial_states(cell: Any, batch_size: Tensor, dtype: str) -> list[Tensor]:
    """Return the initial states of a single cell, from its `get_initial_state`, or zeros."""
    if hasattr(cell, "get_initial_state"):
        states: list[Tensor] = keras.tree.flatten(cell.get_initial_state(batch_size=batch_size))
        return states
    return [ops.zeros((batch_size, size), dtype) for size in get_state_sizes(cell)]


def check_states(states: Any, sizes: list[int], batch_size: Tensor) -> None:
    """Raise ValueError unless `states` has a tensor `(B, size)` for each of the `sizes`."""
    if not isinstance(states, (list, tuple)):
        raise ValueError(
            f"initial_state must be a list of tensors of widths {sizes}, got "
            f"{type(states).__name__}; pass the tensors in a list"
        )
    got = [state.shape[-1] for state in states]
    if got != sizes:
        raise ValueError(f"initial_state must have tensors of widths {sizes}, got {got}")
    for state, size in zip(states, sizes, strict=True):
        batch = batch_size if isinstance(batch_size, int) else "batch"
        check_shape("a tensor of initial_state", state.shape, (batch, size))


def sample_dropout_masks(cell: Any, batch: Tensor, input_width: int, dtype: str) -> None:
    """Sample new dropout masks for a cell, outside the loop that uses them."""
    reset_dropout_masks(cell)
    if hasattr(cell, "reset_dropout_mask"):
        cell.get_dropout_mask(ops.ones((batch, input_width), dtype))
        cell.get_recurrent_dropout_mask(ops.ones((batch, get_state_sizes(cell)[0]), dtype))


def reset_dropout_masks(cell: Any) -> None:
    """Reset a cell's dropout masks after the loop: they belong to one call (and one graph)."""
    if hasattr(cell, "reset_dropout_mask"):
        cell.reset_dropout_mask()
        cell.reset_recurrent_dropout_mask()
