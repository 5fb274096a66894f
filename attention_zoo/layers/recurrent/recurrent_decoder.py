"""Recurrent decoder with attention: the loop over an attention cell."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.steps import Noise
from attention_zoo.layers.base import BaseLayer
from attention_zoo.layers.recurrent.attention_cell import (
    AttentionCell,
    CellConstants,
    CellState,
    StepRecord,
)
from attention_zoo.layers.recurrent.cell_steps import get_state_sizes, list_cells
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class RecurrentDecoder(BaseLayer):
    """Recurrent decoder: runs an attention cell over the target sequence.

    Computations that do not depend on the previous step run outside the loop: the projections of
    the inputs and of the memory, and the attention itself if nothing is fed back.

    Args:
        cell: an `AttentionCell`. A Keras cell, or a list of cells, runs without attention.
        bridge: if True, `initial_state` is one tensor of any width, and every cell state starts at
            `tanh(initial_state W + b)`; if False, `initial_state` is the list of the cell states.
        alignment_history: whether to also return the weights of every attention.
        return_state: whether to also return the final cell states.

    Call arguments:
        inputs: `(B, T, E)`, the embedded target.
        memory: `(B, S, Dm)`, or a list with one memory per attention.
        initial_state: list of tensors `(B, H)`, zeros when None; with `bridge` one tensor `(B, D)`.
        inputs_mask: `(B, T)`; a masked step leaves the state unchanged.
        memory_mask: `(B, S)`, or a list with one mask per attention.
        training: whether to apply dropout.

    Returns:
        Outputs `(B, T, A)`, or `(B, T, H)` if the cell's `output_attention` is False; then, on
        request, the weights, a list of `(B, T, S)`; then, on request, the list of final states.

    Weights:
        Those of the cell; bridge_kernel_i `(D, H)` and bridge_bias_i `(H,)` with `bridge`.

    Masking:
        Masked steps give output 0 and weights 0. Masked memory positions get weight 0, and their
        values do not affect the output. The inputs' mask is propagated.

    Cost:
        O(T) sequential steps, each with one cell step and O(S) scores; O(T (H + S)) memory.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.layers import AttentionCell, MultiplicativeAttention
        >>> from attention_zoo.layers import RecurrentDecoder
        >>> cell = AttentionCell(
        ...     keras.layers.LSTMCell(8), MultiplicativeAttention(), attention_layer_size=8
        ... )
        >>> decoder = RecurrentDecoder(cell, alignment_history=True)
        >>> inputs, memory = np.ones((2, 3, 5), "float32"), np.ones((2, 6, 7), "float32")
        >>> outputs, weights = decoder(inputs, memory)
        >>> tuple(outputs.shape), tuple(weights[0].shape)
        ((2, 3, 8), (2, 3, 6))

    Reference:
        Bahdanau et al. 2014, arXiv 1409.0473, appendix A.2.2 (the bridge: s_0 = tanh(W_s h_1));
        Luong et al. 2015, arXiv 1508.04025, section 3.3 (input feeding).
    """

    def __init__(
        self,
        cell: Any,
        bridge: bool = False,
        alignment_history: bool = False,
        return_state: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.cell = (
            cell
            if isinstance(cell, AttentionCell)
            else AttentionCell(cell, [], dtype=self.dtype_policy)
        )
        self.bridge = bridge
        self.alignment_history = alignment_history
        self.return_state = return_state
        self.supports_masking = True

    def build(
        self, inputs_shape: Shape, memory_shape: Any = None, initial_state_shape: Any = None
    ) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "steps", "features"))
        if not self.cell.built:
            self.cell.build(inputs_shape, self._list_per_attention(memory_shape, is_shape=True))
        self.bridges = []
        if self.bridge:
            if initial_state_shape is None or not isinstance(initial_state_shape[-1], int):
                raise ValueError("with bridge, initial_state must be one tensor (batch, features)")
            for number, size in enumerate(self.state_sizes):
                kernel = self.add_weight(
                    shape=(initial_state_shape[-1], size), name=f"bridge_kernel_{number}"
                )
                bias = self.add_weight(
                    shape=(size,), initializer="zeros", name=f"bridge_bias_{number}"
                )
                self.bridges.append((kernel, bias))
        self.built = True

    @property
    def state_sizes(self) -> list[int]:
        """Widths of all states of all cells, bottom cell first."""
        return [size for cell in list_cells(self.cell.cell) for size in get_state_sizes(cell)]

    def call(
        self,
        inputs: Tensor,
        memory: Any = None,
        initial_state: Any = None,
        inputs_mask: Tensor | None = None,
        memory_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        constants, state = self.start(
            memory, initial_state, memory_mask, ops.shape(inputs)[0], bool(training)
        )
        fields = ("output", "weights") if self.alignment_history else ("output",)
        record, state = self.unroll(inputs, constants, state, inputs_mask, fields, bool(training))
        results = [record["output"]]
        if self.alignment_history:
            results.append(list(record["weights"]))
        if self.return_state:
            results.append([leaf for states in state.cells for leaf in states])
        return results[0] if len(results) == 1 else tuple(results)

    def start(
        self,
        memory: Any,
        initial_state: Any,
        memory_mask: Any,
        batch_size: Tensor,
        training: bool = False,
    ) -> tuple[CellConstants, CellState]:
        """Return the prepared memories and kernels that all steps share, and the initial state."""
        memories = self._list_per_attention(memory)
        masks: list[Any] = [None] * len(memories)
        if memory_mask is not None:
            masks = self._list_per_attention(memory_mask, name="memory masks")
        batch = batch_size if isinstance(batch_size, int) else "batch"
        for memory, shape in zip(memories, self.cell.memory_shapes, strict=True):
            axes = ("positions",) * (len(shape) - 2)
            zoo_ops.check_shape("memory", memory.shape, (batch, *axes, shape[-1]))
        masks = [
            None if m is None else zoo_ops.as_boolean_mask(m, "memory_mask", tuple(x.shape[:-1]))
            for m, x in zip(masks, memories, strict=True)
        ]
        constants = self.cell.prepare(memories, masks, training)
        if self.bridge:
            initial_state = self._bridge_states(initial_state, batch)
        return constants, self.cell.initial_state(constants, batch_size, initial_state)

    def _bridge_states(self, vector: Any, batch: Any) -> list[Tensor]:
        """Compute all initial states from one vector `(B, D)`."""
        if vector is None or isinstance(vector, (list, tuple)):
            raise ValueError("with bridge, initial_state must be one tensor (batch, features)")
        expected = (batch, self.bridges[0][0].shape[0])
        zoo_ops.check_shape("initial_state", vector.shape, expected)
        vector = ops.cast(vector, self.compute_dtype)
        return [self._bridge_state(vector, *weights) for weights in self.bridges]

    def _bridge_state(self, vector: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
        """Compute one initial state, `tanh(vector W + b)`."""
        dtype = vector.dtype
        return ops.tanh(ops.matmul(vector, ops.cast(kernel, dtype)) + ops.cast(bias, dtype))

    def step(
        self, inputs: Tensor, state: CellState, constants: CellConstants
    ) -> tuple[StepRecord, CellState]:
        """Run one inference step of a search: inputs `(B, E)`, or `(B, N, E)` for N hypotheses."""
        return self.cell.step(self.cell.hoist(inputs), state, constants)

    def unroll(
        self,
        inputs: Tensor,
        constants: CellConstants,
        state: CellState,
        inputs_mask: Tensor | None = None,
        fields: tuple[str, ...] = ("output",),
        training: bool = False,
    ) -> tuple[dict[str, Any], CellState]:
        """Run all steps.

        Returns:
            The fields of `StepRecord` named in `fields`, each `(B, T, ...)`, and the final state.
        """
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "steps", self.cell.input_size))
        mask = zoo_ops.combine_masks(
            None
            if inputs_mask is None
            else zoo_ops.as_boolean_mask(inputs_mask, "inputs_mask", tuple(inputs.shape[:2])),
            zoo_ops.implicit_mask(inputs),
        )
        if training:
            self.cell.sample_dropout_masks(ops.shape(inputs)[0])
        run = self._run_cells_then_attend if self.cell.can_attend_after_loop else self._run_steps
        record, state = run(
            zoo_ops.zero_masked(inputs, mask), constants, state, mask, fields, training
        )
        self.cell.reset_dropout_masks()
        record = keras.tree.map_structure(lambda x: zoo_ops.zero_masked(x, mask), record)
        if "output" in record:
            zoo_ops.pass_mask_on(record["output"], mask)
        return record, state

    def _run_steps(
        self,
        inputs: Tensor,
        constants: CellConstants,
        state: CellState,
        mask: Tensor | None,
        fields: tuple[str, ...],
        training: bool,
    ) -> tuple[dict[str, Any], CellState]:
        """Run cell and attention together, step by step."""
        steps = self._step_inputs(inputs, mask, training)
        noise = self._sample_noise(inputs, constants, training)
        steps |= _flatten_noise(noise)

        def step(state: CellState, xs: dict[str, Tensor]) -> tuple[CellState, dict[str, Any]]:
            step_noise = _get_step_noise(xs, len(noise))
            record, new = self.cell.step(xs["hoisted"], state, constants, step_noise, training)
            return _keep_masked_states(xs, new, state), {
                name: getattr(record, name) for name in fields
            }

        like = self._make_zero_record(ops.shape(inputs)[0], constants, fields)
        state, record = zoo_ops.scan(step, state, steps, like)
        return keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), record), state

    def _run_cells_then_attend(
        self,
        inputs: Tensor,
        constants: CellConstants,
        state: CellState,
        mask: Tensor | None,
        fields: tuple[str, ...],
        training: bool,
    ) -> tuple[dict[str, Any], CellState]:
        """Run the cells over all steps, then attend for all steps at once; nothing is fed back."""

        def step(cells: Any, xs: dict[str, Tensor]) -> tuple[Any, Tensor]:
            hidden, new = self.cell.step_cells(xs["hoisted"], [], cells, constants, training)
            return _keep_masked_states(xs, new, cells), hidden

        like = self._make_zero_record(ops.shape(inputs)[0], constants, ("hidden",))["hidden"]
        steps = self._step_inputs(inputs, mask, training)
        cells, hidden = zoo_ops.scan(step, state.cells, steps, like)
        hidden = ops.swapaxes(hidden, 0, 1)
        noise = self._sample_noise(inputs, constants, training)
        context, weights, _ = self.cell.attend(hidden, constants, state.alignments, noise, training)
        output = self.cell.combine(hidden, context) if self.cell.output_attention else hidden
        record = StepRecord(output, hidden, context, hidden, weights)
        return {name: getattr(record, name) for name in fields}, state._replace(cells=cells)

    def _step_inputs(
        self, inputs: Tensor, mask: Tensor | None, training: bool
    ) -> dict[str, Tensor]:
        """Return the inputs of each step, time axis first."""
        steps = {"hoisted": self.cell.hoist(ops.swapaxes(inputs, 0, 1), training)}
        if mask is not None:
            steps["mask"] = ops.swapaxes(mask, 0, 1)[..., None]
        return steps

    def _sample_noise(
        self, inputs: Tensor, constants: CellConstants, training: bool
    ) -> tuple[Noise | None, ...]:
        """Generate the noise of each attention, for all steps at once and outside the loop."""
        return tuple(
            attention.sample_noise(memory, ops.shape(inputs)[1], training)
            for attention, memory in zip(self.cell.attentions, constants.memories, strict=True)
        )

    def _make_zero_record(
        self, batch_size: Tensor, constants: CellConstants, fields: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return zeros with the shapes of one step's record."""
        sizes = {
            "output": self.cell.output_size,
            "hidden": self.cell.hidden_size,
            "context": self.cell.context_size,
            "query": self.cell.hidden_size,
        }
        like: dict[str, Any] = {
            name: ops.zeros((batch_size, size), self.compute_dtype)
            for name, size in sizes.items()
            if name in fields
        }
        if "weights" in fields:
            like["weights"] = tuple(
                ops.zeros(ops.shape(attention.weights_like(memory)), self.compute_dtype)
                for attention, memory in zip(self.cell.attentions, constants.memories, strict=True)
            )
        return like

    def _list_per_attention(
        self, given: Any, is_shape: bool = False, name: str = "memories"
    ) -> list[Any]:
        """Return a list with one entry per attention, from one shared entry or a list."""
        count = len(self.cell.attentions)
        is_single = not isinstance(given, (list, tuple)) or (
            is_shape and all(not isinstance(x, (list, tuple)) for x in given)
        )
        if given is None:
            if count:
                raise ValueError(
                    "this decoder has an attention, so it needs memory (batch, steps, features)"
                )
            return []
        entries = [given] * count if is_single else list(given)
        if len(entries) != count:
            raise ValueError(
                f"{count} attentions but {len(entries)} {name}: "
                "give each attention its own (the same tensor twice is fine)"
            )
        return entries

    def compute_output_spec(
        self, inputs: Tensor, memory: Any = None, initial_state: Any = None, **kwargs: Any
    ) -> Any:
        def spec(*shape: int | None) -> keras.KerasTensor:
            return keras.KerasTensor(shape, dtype=self.compute_dtype)

        batch, steps = inputs.shape[:2]
        results: list[Any] = [spec(batch, steps, self.cell.output_size)]
        if self.alignment_history:
            memories = self._list_per_attention(memory)
            rows = [(a.heads,) if a.heads else () for a in self.cell.attentions]
            results.append(
                [
                    spec(batch, steps, *heads, m.shape[1])
                    for heads, m in zip(rows, memories, strict=True)
                ]
            )
        if self.return_state:
            results.append([spec(batch, size) for size in self.state_sizes])
        return results[0] if len(results) == 1 else tuple(results)


def _flatten_noise(noise: tuple[Noise | None, ...]) -> dict[str, Tensor]:
    """Return the noise of all steps, leaves `(B, [H], T, S)`, as named tensors, time axis first."""
    return {
        f"{name}_{number}": ops.moveaxis(leaf, -2, 0)
        for number, step_noise in enumerate(noise)
        if step_noise is not None
        for name, leaf in step_noise._asdict().items()
        if leaf is not None
    }


def _get_step_noise(xs: dict[str, Tensor], count: int) -> tuple[Noise | None, ...]:
    """Return the noise of one step for each attention, from the names of `_flatten_noise`."""
    return tuple(
        Noise(*leaves) if any(leaf is not None for leaf in leaves) else None
        for leaves in (
            [xs.get(f"{name}_{number}") for name in Noise._fields] for number in range(count)
        )
    )


def _keep_masked_states(xs: dict[str, Tensor], new: Any, old: Any) -> Any:
    """Return the new state, but the old state in rows whose step is masked."""
    if "mask" not in xs:
        return new
    mask = xs["mask"]
    return keras.tree.map_structure(lambda a, b: ops.where(mask, a, b), new, old)
