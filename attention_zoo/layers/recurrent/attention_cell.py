"""Recurrent cell with attention."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo.layers.attention.steps import Memory, Noise
from attention_zoo.layers.base import serialize
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.layers.recurrent.cell_steps import (
    CellStepper,
    check_states,
    concatenate,
    get_output_size,
    get_state_sizes,
    list_cells,
    make_initial_states,
    make_stepper,
    reset_dropout_masks,
    sample_dropout_masks,
)
from attention_zoo.ops import project, whole_number
from attention_zoo.registry import check_choice
from attention_zoo.typing import Shape, Tensor

ORDERS = ("attend_then_step", "step_then_attend")


class CellConstants(NamedTuple):
    """Constants of all steps: the prepared memories and the cells' kernels."""

    memories: tuple[Memory, ...]
    kernels: tuple[tuple[Tensor, ...], ...]


class CellState(NamedTuple):
    """Recurrent state: cell states, attention for input feeding, states of the attentions."""

    cells: tuple[tuple[Tensor, ...], ...]
    attention: tuple[Tensor, ...]
    alignments: tuple[tuple[Any, ...], ...]


class StepRecord(NamedTuple):
    """Results of a step.

    output: output of the step. hidden: output of the top cell. context: concatenated contexts of
    all attentions, None without attention. query: query of the attentions. weights: weights of
    each attention, before dropout.
    """

    output: Tensor
    hidden: Tensor
    context: Tensor | None
    query: Tensor
    weights: tuple[Tensor, ...]


@keras.saving.register_keras_serializable("attention_zoo")
class AttentionCell(KernelLayer):
    """Keras cell with one or several attentions over one or several memories.

    `step_then_attend` (Luong): `h_t = cell([x_t; a_{t-1}])`, `c_t = attend(h_t)`;
    `attend_then_step` (Bahdanau): `c_t = attend(h_{t-1})`, `h_t = cell([x_t; c_t])`;
    in both `a_t = f([h_t; c_t] W)`, or `a_t = f(c_t)` without an attention layer.

    Args:
        cell: a Keras cell, or a list of cells, bottom first; the top cell's output is the query. A
            cell whose output differs in width from its first state needs `output_size`.
        attention: an `Attention`, or a list of them, or an empty list for none.
        order: "step_then_attend" or "attend_then_step".
        input_feeding: whether to feed a_{t-1} to the cell too. None means as in the papers: only
            with "step_then_attend" (with "attend_then_step" the cell always takes c_t as input).
        attention_layer_size: width of a_t; None for no attention layer.
        attention_activation: f; None for the identity.
        output_attention: whether the output is a_t; h_t when False.

    Call arguments:
        inputs: `(B, E)`, or `(B, N, E)` for N hypotheses per memory.
        state: a `CellState`, from `initial_state` or the previous step.
        constants: from `prepare`.
        noise: noise of the attention steps in training, one `Noise` or None per attention.
        training: enables dropout.

    Returns:
        A `StepRecord` and the next `CellState`.

    Weights:
        The weights of the cell and of the attentions; attention_kernel: W, `(H + Dv, A)`. The
        cell's input has `E + Dv + A` features: inputs, context (with "attend_then_step") and
        attention (with `input_feeding`).

    Masking:
        `prepare` masks the memories; a fully masked memory gives context 0.

    Cost:
        One step of the cell and one step of each attention.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.layers import AdditiveAttention, AttentionCell, RecurrentDecoder
        >>> cell = AttentionCell(keras.layers.GRUCell(8), AdditiveAttention(4))
        >>> inputs, memory = np.ones((2, 3, 5), "float32"), np.ones((2, 6, 7), "float32")
        >>> tuple(RecurrentDecoder(cell)(inputs, memory).shape)
        (2, 3, 7)

    Reference:
        Bahdanau et al. 2014, arXiv 1409.0473, section 3.1 (s_i is h_t, y_{i-1} the input) and
        Luong et al. 2015, arXiv 1508.04025, equation 5 and section 3.3 (h~_t is a_t with
        `attention_activation="tanh"`; W_c is W, whose rows here are those of [h_t; c_t]).
    """

    def __init__(
        self,
        cell: Any,
        attention: Any,
        order: str = "step_then_attend",
        input_feeding: bool | None = None,
        attention_layer_size: int | None = None,
        attention_activation: Any = None,
        output_attention: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("order", order, ORDERS)
        self.cell = _check_cell(cell, self.dtype_policy)
        self.attentions = _check_attentions(attention)
        self.order = order
        has_attention = bool(self.attentions)
        self.attends_first = has_attention and order == "attend_then_step"
        if input_feeding is None:
            input_feeding = has_attention and not self.attends_first
        self.input_feeding = input_feeding
        if input_feeding and not has_attention:
            raise ValueError(
                f"input_feeding requires an attention, got attention={attention!r}. Pass an "
                "attention, or input_feeding=False."
            )
        if attention_layer_size is not None:
            attention_layer_size = whole_number("attention_layer_size", attention_layer_size)
        self.attention_layer_size = attention_layer_size
        self.attention_activation = keras.activations.get(attention_activation)
        self.output_attention = output_attention and has_attention
        top = list_cells(self.cell)[-1]
        self.hidden_size = get_output_size(top)
        self.query_size = get_state_sizes(top)[0] if self.attends_first else self.hidden_size

    def build(self, inputs_shape: Shape, memory_shapes: list[Shape]) -> None:
        """Build the cell and the attentions; `memory_shapes` has one shape per attention."""
        if len(memory_shapes) != len(self.attentions):
            raise ValueError(
                f"{len(self.attentions)} attentions but {len(memory_shapes)} memories: "
                "give each attention its memory (the same tensor twice is fine)"
            )
        self.input_size = inputs_shape[-1]
        query_shape = (inputs_shape[0], 1, self.query_size)
        for attention, shape in zip(self.attentions, memory_shapes, strict=True):
            if not attention.built:
                attention.build((shape[0], *query_shape[1:]), tuple(shape))
        self.memory_shapes = [tuple(shape) for shape in memory_shapes]
        self.context_size = sum(
            attention.compute_output_shape(query_shape, shape)[-1]
            for attention, shape in zip(self.attentions, memory_shapes, strict=True)
        )
        self.attention_size = self.attention_layer_size or self.context_size
        if not self.cell.built:
            self.cell.build((inputs_shape[0], self.cell_input_size))
        self.attention_kernel = None
        if self.attentions and self.attention_layer_size:
            shape = (self.hidden_size + self.context_size, self.attention_layer_size)
            self.attention_kernel = self.add_kernel("attention_kernel", shape)
        self.output_size = self.attention_size if self.output_attention else self.hidden_size

    @property
    def state_sizes(self) -> list[int]:
        """Widths of all states of all cells, bottom cell first."""
        return [size for cell in list_cells(self.cell) for size in get_state_sizes(cell)]

    @property
    def can_attend_after_loop(self) -> bool:
        """Whether attention can run after the loop: it is stateless and does not feed the cell."""
        is_stateful = any(attention.is_stateful for attention in self.attentions)
        return not (self.attends_first or self.input_feeding or is_stateful)

    def prepare(
        self, memories: list[Tensor], masks: list[Tensor | None], training: bool = False
    ) -> CellConstants:
        """Project the memories and arrange the cells' kernels, once before all steps."""
        prepared = tuple(
            attention.prepare(memory, value_mask=mask)
            for attention, memory, mask in zip(self.attentions, memories, masks, strict=True)
        )
        kernels = tuple(cell.kernels(self.compute_dtype) for cell in self._make_steppers(training))
        return CellConstants(prepared, kernels)

    def initial_state(
        self, constants: CellConstants, batch_size: Tensor, states: list[Tensor] | None = None
    ) -> CellState:
        """Return the initial state.

        `states` has one tensor per cell state; None means the cells' own initial states.
        """
        if states is None:
            options = (batch_size, self.compute_dtype)
            cell_states = [make_initial_states(cell, *options) for cell in list_cells(self.cell)]
            states = [state for states in cell_states for state in states]
        check_states(states, self.state_sizes, batch_size)
        remaining = iter([ops.cast(state, self.compute_dtype) for state in states])
        cells = tuple(
            tuple(next(remaining) for _ in get_state_sizes(cell)) for cell in list_cells(self.cell)
        )
        feedback: tuple[Tensor, ...] = ()
        if self.input_feeding:
            feedback = (ops.zeros((batch_size, self.attention_size), self.compute_dtype),)
        alignments = tuple(
            attention.initial_state(memory)
            for attention, memory in zip(self.attentions, constants.memories, strict=True)
        )
        return CellState(cells, feedback, alignments)

    def hoist(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Compute the part of a step that depends only on inputs `(..., E)`, once for all steps."""
        return self._make_steppers(training)[0].hoist(ops.cast(inputs, self.compute_dtype))

    def call(
        self,
        inputs: Tensor,
        state: CellState,
        constants: CellConstants,
        noise: tuple[Noise | None, ...] | None = None,
        training: bool = False,
    ) -> tuple[StepRecord, CellState]:
        return self.step(self.hoist(inputs, training), state, constants, noise, training)

    def step(
        self,
        hoisted: Tensor,
        state: CellState,
        constants: CellConstants,
        noise: tuple[Noise | None, ...] | None = None,
        training: bool = False,
    ) -> tuple[StepRecord, CellState]:
        """Run one step from the result of `hoist`; the other arguments are those of the call."""
        alignments, query = state.alignments, state.cells[-1][0]
        options = (constants, alignments, noise, training)
        feedback = list(state.attention)
        if self.attends_first:
            context, weights, alignments = self.attend(query, *options)
            feedback = [context, *feedback]
        hidden, cells = self.step_cells(hoisted, feedback, state.cells, constants, training)
        if not self.attends_first:
            query = hidden
            context, weights, alignments = self.attend(query, *options)
        attention = self.combine(hidden, context)
        output = attention if self.output_attention else hidden
        record = StepRecord(output, hidden, context, query, weights)
        return record, CellState(cells, (attention,) if self.input_feeding else (), alignments)

    def step_cells(
        self,
        hoisted: Tensor,
        feedback: list[Tensor],
        cells: tuple[tuple[Tensor, ...], ...],
        constants: CellConstants,
        training: bool = False,
    ) -> tuple[Tensor, tuple[tuple[Tensor, ...], ...]]:
        """Run one step of the cells alone; return the top cell's output and all next states."""
        output, next_states = hoisted, []
        for number, stepper in enumerate(self._make_steppers(training)):
            hoisted_inputs = output if number == 0 else stepper.hoist(output)
            extra_inputs = feedback if number == 0 else []
            kernels = constants.kernels[number]
            output, states = stepper.step(hoisted_inputs, extra_inputs, cells[number], kernels)
            next_states.append(states)
        return output, tuple(next_states)

    def attend(
        self,
        query: Tensor,
        constants: CellConstants,
        alignments: tuple[tuple[Any, ...], ...],
        noise: tuple[Noise | None, ...] | None,
        training: bool = False,
    ) -> tuple[Tensor | None, tuple[Tensor, ...], tuple[tuple[Tensor, ...], ...]]:
        """Run all attentions; return their concatenated contexts, weights and next states."""
        if not self.attentions:
            return None, (), ()
        noise = noise or (None,) * len(self.attentions)
        steps = zip(self.attentions, constants.memories, alignments, noise, strict=True)
        results = [attention.attend(query, *step, training) for attention, *step in steps]
        contexts, weights, states = zip(*results, strict=True)
        return concatenate(*contexts), weights, states

    def combine(self, hidden: Tensor, context: Tensor | None) -> Tensor | None:
        """Compute `a = f([h; c] W)`, or `f(c)` without an attention layer; any leading axes."""
        if context is None:
            return None
        if self.attention_kernel is not None:
            context = concatenate(hidden, context)
            context = project(context, self.attention_kernel)
        return self.attention_activation(context)

    def sample_dropout_masks(self, batch_size: Tensor) -> None:
        """Sample the cells' dropout masks for one call, before its loop."""
        width = self.cell_input_size
        for cell in list_cells(self.cell):
            sample_dropout_masks(cell, batch_size, width, self.compute_dtype)
            width = get_output_size(cell)

    def reset_dropout_masks(self) -> None:
        """Reset the cells' dropout masks after the loop."""
        for cell in list_cells(self.cell):
            reset_dropout_masks(cell)

    @property
    def cell_input_size(self) -> int:
        """Input width of the bottom cell: inputs, context and fed-back attention."""
        feedback = self.context_size * self.attends_first + self.attention_size * self.input_feeding
        return self.input_size + feedback

    def _make_steppers(self, training: bool) -> list[CellStepper]:
        widths = [self.input_size] + [get_output_size(cell) for cell in list_cells(self.cell)]
        return [
            make_stepper(cell, width, training)
            for cell, width in zip(list_cells(self.cell), widths, strict=False)
        ]

    def get_config(self) -> dict[str, Any]:
        attentions = serialize(list(self.attentions))
        return {**super().get_config(), "attention": attentions}


def _check_cell(cell: Any, dtype: Any) -> Any:
    """Return the cell, or a stack of the listed cells; raise ValueError for anything else."""
    cells = cell if isinstance(cell, list) else [cell]
    are_cells = [hasattr(x, "state_size") and not isinstance(x, keras.layers.RNN) for x in cells]
    if not cells or not all(are_cells):
        raise ValueError(
            f"cell must be a Keras cell, such as GRUCell, or a list of them, got {cell!r}"
        )
    return keras.layers.StackedRNNCells(cell, dtype=dtype) if isinstance(cell, list) else cell


def _check_attentions(attention: Any) -> list[Any]:
    """Return the attentions as a list; raise ValueError for anything else."""
    attentions = list(attention) if isinstance(attention, (list, tuple)) else [attention]
    for layer in attentions:
        if not hasattr(layer, "attend"):
            raise ValueError(f"attention must be an Attention, or a list of them, got {layer!r}")
    return attentions
