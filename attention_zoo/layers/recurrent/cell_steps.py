"""Keras's recurrent cells with the input projection hoisted out of the loop.

A Keras cell computes `inputs @ kernel + state @ recurrent_kernel` at every step. Here `hoist`
computes the input part for all steps at once, and `step` adds the rest in the loop. Tensors fed
back from the previous step (`fed`) are further input features. Cells of other classes, and cells
with dropout in training, run unchanged.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.typing import Tensor

States = tuple[Tensor, ...]


class WholeCell:
    """Any cell, called once per step."""

    def __init__(self, cell: Any, width: int) -> None:
        self.cell, self.width = cell, width

    def kernels(self, dtype: str) -> States:
        """Return the weights as the loop uses them, computed once before it."""
        return ()

    def hoist(self, inputs: Tensor) -> Tensor:
        """Compute the part of a step that depends only on inputs `(..., E)`, once for all steps."""
        return inputs

    def step(
        self, hoisted: Tensor, fed: list[Tensor], states: States, kernels: States, training: bool
    ) -> tuple[Tensor, States]:
        """Run one step. All tensors have the same leading axes, any number of them."""
        inputs = ops.concatenate([hoisted, *fed], axis=-1) if fed else hoisted
        lead = ops.shape(inputs)[:-1]
        flat = [ops.reshape(x, (-1, x.shape[-1])) for x in (inputs, *states)]
        output, new = self.cell(flat[0], flat[1:], training=training)
        new = list(new) if isinstance(new, (list, tuple)) else [new]
        shaped = [ops.reshape(x, (*lead, x.shape[-1])) for x in (output, *new)]
        return shaped[0], tuple(shaped[1:])


class _SplitCell(WholeCell):
    """Cell whose kernel is split into the rows of the inputs and the rows of `fed`."""

    def hoist(self, inputs: Tensor) -> Tensor:
        kernel = ops.cast(self.cell.kernel, inputs.dtype)[: self.width]
        hoisted = ops.matmul(inputs, kernel)
        bias = self._input_bias()
        return hoisted if bias is None else hoisted + ops.cast(bias, inputs.dtype)

    def _input_bias(self) -> Tensor | None:
        return self.cell.bias

    def kernels(self, dtype: str) -> States:
        fed = ops.cast(self.cell.kernel, dtype)[self.width :]
        return (ops.concatenate([fed, ops.cast(self.cell.recurrent_kernel, dtype)], axis=0),)


class SplitLSTM(_SplitCell):
    """`LSTMCell`: gates i, f, c, o."""

    def step(
        self, hoisted: Tensor, fed: list[Tensor], states: States, kernels: States, training: bool
    ) -> tuple[Tensor, States]:
        h, c = states
        z = hoisted + ops.matmul(ops.concatenate([*fed, h], axis=-1) if fed else h, kernels[0])
        i, f, g, o = ops.split(z, 4, axis=-1)
        gate, activation = self.cell.recurrent_activation, self.cell.activation
        c = gate(f) * c + gate(i) * activation(g)
        h = gate(o) * activation(c)
        return h, (h, c)


class SplitSimpleRNN(_SplitCell):
    """`SimpleRNNCell`."""

    def step(
        self, hoisted: Tensor, fed: list[Tensor], states: States, kernels: States, training: bool
    ) -> tuple[Tensor, States]:
        read = ops.concatenate([*fed, states[0]], axis=-1) if fed else states[0]
        h = self.cell.activation(hoisted + ops.matmul(read, kernels[0]))
        return h, (h,)


class SplitGRU(_SplitCell):
    """`GRUCell`: gates z, r, h, with the reset after or before the recurrent product."""

    def _input_bias(self) -> Tensor | None:
        bias = self.cell.bias
        return bias[0] if bias is not None and self.cell.reset_after else bias

    def kernels(self, dtype: str) -> States:
        fed = ops.cast(self.cell.kernel, dtype)[self.width :]
        bias = self.cell.bias
        inner = ops.cast(bias, dtype)[1] if bias is not None and self.cell.reset_after else None
        recurrent = ops.cast(self.cell.recurrent_kernel, dtype)
        if self.cell.reset_after:
            return (fed, recurrent) if inner is None else (fed, recurrent, inner)
        split = 2 * self.cell.units
        return fed, recurrent[:, :split], recurrent[:, split:]

    def step(
        self, hoisted: Tensor, fed: list[Tensor], states: States, kernels: States, training: bool
    ) -> tuple[Tensor, States]:
        h, units = states[0], self.cell.units
        gate, activation = self.cell.recurrent_activation, self.cell.activation
        x = hoisted
        if fed:
            x = x + ops.matmul(ops.concatenate(fed, axis=-1), kernels[0])
        inner = ops.matmul(h, kernels[1])
        if self.cell.reset_after:
            inner = inner + kernels[2] if len(kernels) == 3 else inner
        zr = gate(x[..., : 2 * units] + inner[..., : 2 * units])
        z, r = zr[..., :units], zr[..., units:]
        if self.cell.reset_after:
            candidate = r * inner[..., 2 * units :]
        else:
            candidate = ops.matmul(r * h, kernels[2])
        h = z * h + (1 - z) * activation(x[..., 2 * units :] + candidate)
        return h, (h,)


_SPLIT: dict[type, type[WholeCell]] = {
    keras.layers.LSTMCell: SplitLSTM,
    keras.layers.GRUCell: SplitGRU,
    keras.layers.SimpleRNNCell: SplitSimpleRNN,
}


def split_cell(cell: Any, width: int, training: bool) -> WholeCell:
    """Return the fastest stepper for a built cell whose first `width` features are the inputs."""
    rates = (getattr(cell, "dropout", 0.0), getattr(cell, "recurrent_dropout", 0.0))
    drops = training and any(rates)
    kind = WholeCell if drops else _SPLIT.get(type(cell), WholeCell)
    return kind(cell, width)


def cells_of(cell: Any) -> list[Any]:
    """Return a list of a stack's cells, bottom first, or of the single cell."""
    return list(cell.cells) if isinstance(cell, keras.layers.StackedRNNCells) else [cell]


def state_sizes(cell: Any) -> list[int]:
    """Return the widths of a single cell's states."""
    size = cell.state_size
    return list(size) if isinstance(size, (list, tuple)) else [size]


def draw_dropout_masks(cell: Any, batch: Tensor, input_width: int, dtype: str) -> None:
    """Sample new dropout masks for a cell, outside the loop that uses them."""
    if not hasattr(cell, "reset_dropout_mask"):
        return
    cell.reset_dropout_mask()
    cell.reset_recurrent_dropout_mask()
    cell.get_dropout_mask(ops.ones((batch, input_width), dtype))
    cell.get_recurrent_dropout_mask(ops.ones((batch, state_sizes(cell)[0]), dtype))


def forget_dropout_masks(cell: Any) -> None:
    """Reset a cell's dropout masks after the loop: they belong to one call (and one graph)."""
    if hasattr(cell, "reset_dropout_mask"):
        cell.reset_dropout_mask()
        cell.reset_recurrent_dropout_mask()
