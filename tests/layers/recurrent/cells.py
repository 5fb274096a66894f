"""Cells for tests, and a slow reference loop that runs any of them with attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from attention_zoo.layers import RecurrentDecoder
from attention_zoo.layers.recurrent.cell_steps import list_cells


@keras.saving.register_keras_serializable("attention_zoo_tests")
class LeakyCell(layers.Layer):
    """A user-defined cell with one state: `h = 0.5 h + tanh(x W)`."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = self.state_size = self.output_size = units

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(shape=(input_shape[-1], self.units), name="kernel")
        self.built = True

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        h = 0.5 * states[0] + ops.tanh(ops.matmul(inputs, self.kernel))
        return h, [h]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable("attention_zoo_tests")
class ProjectedCell(LeakyCell):
    """A cell whose output is narrower than its state."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.output_size = units // 2

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.projection = self.add_weight(shape=(self.units, self.output_size), name="projection")

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        h, states = super().call(inputs, states)
        return ops.matmul(h, self.projection), states


CELLS: dict[str, Callable[[], Any]] = {
    "projected": lambda: ProjectedCell(6),
    "lstm": lambda: layers.LSTMCell(6),
    "lstm_other": lambda: layers.LSTMCell(
        6, activation="softsign", recurrent_activation="hard_sigmoid", use_bias=False
    ),
    "gru": lambda: layers.GRUCell(6),
    "gru_no_bias": lambda: layers.GRUCell(6, use_bias=False),
    "gru_before": lambda: layers.GRUCell(6, reset_after=False),
    "simple": lambda: layers.SimpleRNNCell(6),
    "dropping": lambda: layers.LSTMCell(6, dropout=0.5, recurrent_dropout=0.5),
    "stack": lambda: [layers.GRUCell(5), layers.LSTMCell(6)],
    "unknown": lambda: LeakyCell(6),
}


def reference(
    decoder: RecurrentDecoder,
    inputs: Any,
    memories: list[Any],
    masks: list[Any],
    inputs_mask: Any,
    states: list[Any],
) -> tuple[Any, list[Any], list[Any]]:
    """Return outputs, weights and last states of a Python loop over Keras cells and layer calls.

    Nothing is hoisted, split or precomputed. `inputs_mask` is `(B, T)`.
    """
    cell = decoder.cell
    next_states = iter(states)
    sizes = [
        c.state_size if isinstance(c.state_size, list) else [c.state_size]
        for c in list_cells(cell.cell)
    ]
    nested = [[next(next_states) for _ in size] for size in sizes]
    fed = ops.zeros((inputs.shape[0], cell.attention_size))
    outputs, history = [], []

    def attend(query: Any) -> tuple[Any, list[Any]]:
        pairs = [
            attention(query[:, None], memory, value_mask=mask, return_attention_scores=True)
            for attention, memory, mask in zip(cell.attentions, memories, masks, strict=True)
        ]
        return ops.concatenate([c[:, 0] for c, _ in pairs], -1), [w[:, 0] for _, w in pairs]

    for t in range(inputs.shape[1]):
        arguments = [inputs[:, t]]
        if cell.order == "attend_then_step":
            context, weights = attend(nested[-1][0])
            arguments.append(context)
        if cell.input_feeding:
            arguments.append(fed)
        stacked = len(nested) > 1
        hidden, new = cell.cell(ops.concatenate(arguments, -1), nested if stacked else nested[0])
        if cell.order == "step_then_attend":
            context, weights = attend(hidden)
        attention = context
        if cell.attention_layer_size:
            attention = ops.matmul(ops.concatenate([hidden, context], -1), cell.attention_kernel)
        attention = cell.attention_activation(attention)
        now = inputs_mask[:, t : t + 1]
        new = list(new) if stacked else [list(new)]
        nested = keras.tree.map_structure(lambda a, b, now=now: ops.where(now, a, b), new, nested)
        fed = ops.where(now, attention, fed)
        outputs.append(ops.where(now, attention if cell.output_attention else hidden, 0))
        history.append([ops.where(now, w, 0) for w in weights])
    weights = [ops.stack(rows, axis=1) for rows in zip(*history, strict=True)]
    return ops.stack(outputs, axis=1), weights, [s for states in nested for s in states]
