"""Recurrent decoder with attention: the loop over an attention cell."""

from __future__ import annotations

from typing import Any, Self

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.attention_shapes import broadcast_batch
from attention_zoo.layers.attention.steps import Noise
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.layers.recurrent.attention_cell import (
    AttentionCell,
    CellConstants,
    CellState,
    StepRecord,
)
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class RecurrentDecoder(KernelLayer):
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
        inputs: `(B|1, T, E)`, the embedded target.
        memory: `(B|1, S, Dm)`, or a list with one memory per attention.
        initial_state: list of tensors `(B, H)`; None for the cells' `get_initial_state`, which
            Keras's cells define as zeros. With `bridge` one tensor `(B, D)`.
        inputs_mask: `(B, T)`; a masked step leaves the state unchanged.
        memory_mask: `(B|1, S)`, or a list with one mask per attention.
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
        if not isinstance(cell, AttentionCell):
            cell = AttentionCell(cell, [], dtype=self.dtype_policy)
        self.cell, self.bridge = cell, bridge
        self.alignment_history, self.return_state = alignment_history, return_state
        self.supports_masking = True

    def build(
        self, inputs_shape: Shape, memory_shape: Any = None, initial_state_shape: Any = None
    ) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "steps", "features"))
        if not self.cell.built:
            self.cell.build(inputs_shape, self._list_per_attention(memory_shape, is_shape=True))
        if self.bridge:
            if initial_state_shape is None or not isinstance(initial_state_shape[-1], int):
                raise ValueError("with bridge, initial_state must be one tensor (batch, features)")
            for number, size in enumerate(self.state_sizes):
                shape = (initial_state_shape[-1], size)
                kernel, bias = f"bridge_kernel_{number}", f"bridge_bias_{number}"
                setattr(self, kernel, self.add_kernel(kernel, shape))
                setattr(self, bias, self.add_bias(bias, (size,)))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create a layer from a config.

        Raises ValueError for `go_backwards`, which `keras.layers.Bidirectional` adds.
        """
        if "go_backwards" in config:
            raise ValueError(
                f"{cls.__name__} decodes from left to right, so keras.layers.Bidirectional cannot "
                "wrap it. Use RecurrentEncoder(bidirectional=True), or reverse the inputs."
            )
        return super().from_config(config)

    @property
    def state_sizes(self) -> list[int]:
        """Widths of all states of all cells, bottom cell first."""
        return self.cell.state_sizes

    def call(
        self,
        inputs: Tensor,
        memory: Any = None,
        initial_state: Any = None,
        inputs_mask: Tensor | None = None,
        memory_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        training = bool(training)
        larger = [x for x in self._list_per_attention(memory) if x.shape[0] != 1]
        if inputs.shape[0] == 1 and larger:
            inputs = zoo_ops.repeat_row(inputs, ops.shape(larger[0])[0])
        batch_size = ops.shape(inputs)[0]
        constants, state = self.start(memory, initial_state, memory_mask, batch_size, training)
        fields = ("output", "weights") if self.alignment_history else ("output",)
        record, state = self.unroll(inputs, constants, state, inputs_mask, fields, training)
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
        if not (isinstance(batch_size, int) and batch_size == 1):
            memories = [
                zoo_ops.repeat_row(x, batch_size) if x.shape[0] == 1 else x for x in memories
            ]
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
        """Compute all initial states `tanh(vector W + b)` from one vector `(B, D)`."""
        if vector is None or isinstance(vector, (list, tuple)):
            raise ValueError("with bridge, initial_state must be one tensor (batch, features)")
        expected = (batch, self.bridge_kernel_0.shape[0])
        zoo_ops.check_shape("initial_state", vector.shape, expected)
        vector = ops.cast(vector, self.compute_dtype)
        states = []
        for number in range(len(self.state_sizes)):
            kernel = getattr(self, f"bridge_kernel_{number}")
            bias = ops.cast(getattr(self, f"bridge_bias_{number}"), vector.dtype)
            states.append(ops.tanh(zoo_ops.project(vector, kernel) + bias))
        return states

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
        mask = zoo_ops.merge_masks("inputs_mask", inputs_mask, inputs)
        if training:
            self.cell.sample_dropout_masks(ops.shape(inputs)[0])
        noise = tuple(  # of each attention, for all steps at once
            attention.sample_noise(memory, ops.shape(inputs)[1], training)
            for attention, memory in zip(self.cell.attentions, constants.memories, strict=True)
        )
        inputs = ops.swapaxes(zoo_ops.zero_masked(inputs, mask), 0, 1)
        steps: dict[str, Any] = {"hoisted": self.cell.hoist(inputs, training)}  # time axis first
        if mask is not None:
            steps["mask"] = ops.swapaxes(mask, 0, 1)[..., None]
        run = self._run_cells_then_attend if self.cell.can_attend_after_loop else self._run_steps
        record, state = run(steps, constants, state, noise, fields, training)
        self.cell.reset_dropout_masks()
        record = keras.tree.map_structure(lambda x: zoo_ops.zero_masked(x, mask), record)
        if "output" in record:
            zoo_ops.attach_mask(record["output"], mask)
        return record, state

    def _run_steps(
        self,
        steps: dict[str, Any],
        constants: CellConstants,
        state: CellState,
        noise: tuple[Noise | None, ...],
        fields: tuple[str, ...],
        training: bool,
    ) -> tuple[dict[str, Any], CellState]:
        """Run cell and attention together, step by step."""
        leaves = [leaf for leaf in keras.tree.flatten(noise) if leaf is not None]
        steps["noise"] = [ops.moveaxis(leaf, -2, 0) for leaf in leaves]  # (T, B, [H], S)

        def step(state: CellState, xs: dict[str, Any]) -> tuple[CellState, dict[str, Any]]:
            remaining = iter(xs["noise"])
            step_noise = keras.tree.map_structure(
                lambda leaf: None if leaf is None else next(remaining), noise
            )
            record, new = self.cell.step(xs["hoisted"], state, constants, step_noise, training)
            results = {name: getattr(record, name) for name in fields}
            return _keep_masked_states(xs, new, state), results

        like = self._make_zero_record(ops.shape(steps["hoisted"])[1], constants, fields)
        state, record = zoo_ops.scan(step, state, steps, like)
        return keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), record), state

    def _run_cells_then_attend(
        self,
        steps: dict[str, Any],
        constants: CellConstants,
        state: CellState,
        noise: tuple[Noise | None, ...],
        fields: tuple[str, ...],
        training: bool,
    ) -> tuple[dict[str, Any], CellState]:
        """Run the cells over all steps, then attend for all steps at once; nothing is fed back."""

        def step(cells: Any, xs: dict[str, Tensor]) -> tuple[Any, Tensor]:
            hidden, new = self.cell.step_cells(xs["hoisted"], [], cells, constants, training)
            return _keep_masked_states(xs, new, cells), hidden

        batch_size = ops.shape(steps["hoisted"])[1]
        like = ops.zeros((batch_size, self.cell.hidden_size), self.compute_dtype)
        cells, hidden = zoo_ops.scan(step, state.cells, steps, like)
        hidden = ops.swapaxes(hidden, 0, 1)
        context, weights, _ = self.cell.attend(hidden, constants, state.alignments, noise, training)
        output = self.cell.combine(hidden, context) if self.cell.output_attention else hidden
        record = StepRecord(output, hidden, context, hidden, weights)
        return {name: getattr(record, name) for name in fields}, state._replace(cells=cells)

    def _make_zero_record(
        self, batch_size: Tensor, constants: CellConstants, fields: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return zeros with the shapes of one step's record."""
        sizes = {
            "output": self.cell.output_size,
            "hidden": self.cell.hidden_size,
            "context": self.cell.context_size,
            "query": self.cell.query_size,
        }
        known = [name for name in fields if name in sizes]
        like: dict[str, Any] = {
            name: ops.zeros((batch_size, sizes[name]), self.compute_dtype) for name in known
        }
        if "weights" in fields:
            like["weights"] = tuple(
                ops.zeros(ops.shape(attention.weights_like(memory)), self.compute_dtype)
                for attention, memory in zip(self.cell.attentions, constants.memories, strict=True)
            )
        return like

    def _list_per_attention(
        self, value: Any, is_shape: bool = False, name: str = "memories"
    ) -> list[Any]:
        """Return a list with one entry per attention, from one shared entry or a list."""
        count = len(self.cell.attentions)
        is_single = not isinstance(value, (list, tuple)) or (
            is_shape and all(not isinstance(x, (list, tuple)) for x in value)
        )
        if value is None:
            if count:
                raise ValueError(
                    "this decoder has an attention, so it needs memory (batch, steps, features)"
                )
            return []
        entries = [value] * count if is_single else list(value)
        if len(entries) != count:
            raise ValueError(
                f"{count} attentions but {len(entries)} {name}: "
                "give each attention its own (the same tensor twice is fine)"
            )
        return entries

    def compute_output_spec(
        self, inputs: Tensor, memory: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        memories = self._list_per_attention(memory)
        batch = broadcast_batch(inputs.shape[0], *(x.shape[0] for x in memories))
        steps = inputs.shape[1]
        results: list[Any] = [self.make_symbolic_output((batch, steps, self.cell.output_size))]
        if self.alignment_history:
            pairs = zip(self.cell.attentions, memories, strict=True)
            heads = [((x.heads,) if x.heads else (), memory.shape[1]) for x, memory in pairs]
            results.append(
                [self.make_symbolic_output((batch, steps, *h, sources)) for h, sources in heads]
            )
        if self.return_state:
            results.append([self.make_symbolic_output((batch, size)) for size in self.state_sizes])
        return results[0] if len(results) == 1 else tuple(results)


def _keep_masked_states(xs: dict[str, Tensor], new: Any, old: Any) -> Any:
    """Return the new state, but the old state in rows whose step is masked."""
    if "mask" not in xs:
        return new
    mask = xs["mask"]
    return keras.tree.map_structure(lambda a, b: ops.where(mask, a, b), new, old)
