"""Recurrent encoder: a stack of recurrent layers over the source."""

from __future__ import annotations

from typing import Any, Self

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.layers.recurrent.cell_steps import check_states
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.registry import check_choice
from attention_zoo.typing import Shape, Tensor

RECURRENT = {
    "lstm": keras.layers.LSTM,
    "gru": keras.layers.GRU,
    "simple_rnn": keras.layers.SimpleRNN,
}


@keras.saving.register_keras_serializable("attention_zoo")
class RecurrentEncoder(KernelLayer):
    """Recurrent encoder: returns one memory vector per source position, and the final states.

    Args:
        cell: "lstm", "gru" or "simple_rnn".
        units: width of the memory; each direction has half of it if `bidirectional`.
        num_layers: number of stacked layers.
        bidirectional: whether every layer runs in both directions.
        go_backwards: whether to process the source in reverse (one direction only). The memory
            keeps the order of the source.
        dropout: dropout rate between the layers, in training.

    Call arguments:
        inputs: `(B, S, E)`.
        mask: `(B, S)`, or None.
        training: whether to apply dropout.
        initial_state: list of states `(B, units)` in the order of the returned ones, or None for
            zeros.

    Returns:
        Memory `(B, S, units)`, and the list of final states `(B, units)`: for each layer, bottom
        first, h, and c if the cell is an LSTM. Both directions are concatenated, forward first.

    Weights:
        Those of Keras's recurrent layers.

    Masking:
        Masked positions do not change the state and give memory 0; a fully masked row has states
        0. The inputs' mask is propagated to the memory.

    Cost:
        O(S) sequential steps in each layer, O(units^2) each.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import RecurrentEncoder
        >>> memory, states = RecurrentEncoder("gru", 8, bidirectional=True)(
        ...     np.ones((2, 3, 5), "float32")
        ... )
        >>> tuple(memory.shape), [tuple(state.shape) for state in states]
        ((2, 3, 8), [(2, 8)])

    Reference:
        Bahdanau et al. 2014, arXiv 1409.0473, section 3.2 (h_j is a row of the memory, both
        directions concatenated); Sutskever et al. 2014, arXiv 1409.3215, section 3.3
        (`go_backwards` reverses the source).
    """

    # What `keras.layers.Bidirectional` reads: it reverses the outputs of layers that return
    # sequences, but the memory keeps the order of the source.
    stateful, return_sequences, return_state, states = False, False, True, None

    def __init__(
        self,
        cell: str,
        units: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        go_backwards: bool = False,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("cell", cell, RECURRENT)
        if bidirectional and go_backwards:
            raise ValueError(
                "go_backwards and bidirectional cannot be combined; set only one of them"
            )
        if bidirectional and units % 2:
            raise ValueError(f"bidirectional needs an even number of units, got {units}")
        self.cell, self.units, self.num_layers = cell, units, num_layers
        self.bidirectional, self.go_backwards, self.dropout = bidirectional, go_backwards, dropout
        self.stack = [self._make_layer(number) for number in range(num_layers)]
        self.drop = Dropout(dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def _make_layer(self, number: int) -> keras.layers.Layer:
        layer, name = RECURRENT[self.cell], f"layer_{number}"
        options = {"return_sequences": True, "return_state": True, **self.part_arguments}
        if self.bidirectional:
            half = layer(self.units // 2, name="direction", **options)
            return keras.layers.Bidirectional(half, name=name, dtype=self.dtype_policy)
        recurrent = layer(self.units, go_backwards=self.go_backwards, name=name, **options)
        if self.go_backwards and keras.backend.backend() == "jax":
            # On JAX, Keras's cuDNN implementation returns outputs in source order, but its loop
            # returns them reversed.
            recurrent.use_cudnn = False
        return recurrent

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create a layer from a config.

        Raises ValueError if `bidirectional` and `go_backwards` are both set, as
        `keras.layers.Bidirectional` does.
        """
        if config.get("bidirectional") and config.get("go_backwards"):
            raise ValueError(
                f"{cls.__name__} with bidirectional=True processes the source in both directions, "
                "so keras.layers.Bidirectional cannot wrap it; set bidirectional=False"
            )
        return super().from_config(config)

    @property
    def _state_sizes(self) -> list[int]:
        """Widths of all states of all layers."""
        return [self.units] * self.num_layers * (2 if self.cell == "lstm" else 1)

    def build(self, inputs_shape: Shape) -> None:
        for layer in self.stack:
            layer.build(inputs_shape)
            inputs_shape = (*inputs_shape[:-1], self.units)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        initial_state: list[Tensor] | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        if mask is not None:
            mask = zoo_ops.as_boolean_mask(mask, "mask", tuple(inputs.shape[:2]))
        if initial_state is not None:
            check_states(initial_state, self._state_sizes, inputs.shape[0])
        memory, states = zoo_ops.zero_masked(inputs, mask), []
        for number, layer in enumerate(self.stack):
            if number:
                memory = self.drop(memory, training=training)
            start = self._get_initial_state(initial_state, number)
            memory, *final_states = layer(memory, initial_state=start, mask=mask, training=training)
            memory = ops.flip(memory, axis=1) if self.go_backwards else memory
            memory = zoo_ops.zero_masked(memory, mask)
            states += self._merge_directions(final_states)
        return zoo_ops.attach_mask(memory, mask), states

    def _get_initial_state(self, states: list[Tensor] | None, number: int) -> list[Tensor] | None:
        """Return the initial states of a layer, those of the forward direction first."""
        if states is None:
            return None
        count = len(states) // self.num_layers
        states = states[number * count : (number + 1) * count]
        if not self.bidirectional:
            return states
        halves = [ops.split(state, 2, axis=-1) for state in states]
        return [half[direction] for direction in range(2) for half in halves]

    def _merge_directions(self, final_states: list[Tensor]) -> list[Tensor]:
        """Concatenate the states of both directions."""
        if not self.bidirectional:
            return final_states
        half = len(final_states) // 2
        pairs = zip(final_states[:half], final_states[half:], strict=True)
        return [ops.concatenate(pair, axis=-1) for pair in pairs]

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        initial_state: list[Tensor] | None = None,
    ) -> Any:
        batch, dtype = inputs.shape[0], self.compute_dtype
        if initial_state is not None:
            check_states(initial_state, self._state_sizes, batch)
        memory = keras.KerasTensor((*inputs.shape[:-1], self.units), dtype=dtype)
        return memory, [keras.KerasTensor((batch, x), dtype=dtype) for x in self._state_sizes]
