from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import (
    AdditiveAttention,
    AttentionCell,
    DotProductAttention,
    MultiplicativeAttention,
    RecurrentDecoder,
)
from tests.layers.conformance import DecoderConformance
from tests.layers.running import array, build_random, close, normal
from tests.variants import numerics_only


class TestAttentionCell(DecoderConformance):
    """Step then attend (Luong et al.), with all options."""

    test_output_shape_is_inferred = None  # state and constants are not tensors
    test_inside_time_distributed = None

    covers = AttentionCell
    cell_options = {"attention_layer_size": 5, "attention_activation": "tanh"}
    changed = {
        "cell": lambda: layers.LSTMCell(3, recurrent_initializer="glorot_uniform"),
        "attention": MultiplicativeAttention,
        "order": "attend_then_step",
        "input_feeding": False,
        "attention_layer_size": 9,
        "attention_activation": "relu",
        "output_attention": False,
    }

    def make(self, dtype: Any = None, **options: Any) -> AttentionCell:
        return self.cell(dtype, **options)

    def apply(self, layer: Any, *tensors: Any) -> Any:
        return RecurrentDecoder(layer, dtype=layer.dtype_policy)(*tensors)


@numerics_only
class TestBahdanauCell(TestAttentionCell):
    """Attend then step, without input feeding by default."""

    cell_options = {"order": "attend_then_step"}


def test_default_of_input_feeding() -> None:
    def uses_input_feeding(order: str, attention: Any) -> bool:
        return AttentionCell(layers.GRUCell(3), attention, order=order).input_feeding

    assert uses_input_feeding("step_then_attend", AdditiveAttention(4))
    assert not uses_input_feeding("attend_then_step", AdditiveAttention(4))
    assert not uses_input_feeding("step_then_attend", [])  # nothing to feed without attention


def test_one_step_by_hand() -> None:
    """h = x, scores ln 1 and ln 3: the weights are 1/4 and 3/4, the context is 3/4 ln 3."""
    cell = AttentionCell(
        layers.SimpleRNNCell(1, activation=None, kernel_initializer="ones", use_bias=False),
        DotProductAttention(),
        input_feeding=False,
    )
    memory = np.log([[[1.0], [3.0]]]).astype("float32")
    outputs = RecurrentDecoder(cell)(np.ones((1, 1, 1), "float32"), memory)
    assert float(array(outputs)[0, 0, 0]) == pytest.approx(0.75 * np.log(3), rel=1e-6)


def test_call_is_one_step_of_the_decoder() -> None:
    inputs, memory = normal((3, 1, 4), (3, 5, 7))
    cell = AttentionCell(layers.LSTMCell(6), AdditiveAttention(8))
    decoder = RecurrentDecoder(cell)
    outputs = decoder(inputs, memory)
    constants = cell.prepare([ops.convert_to_tensor(memory)], [None])
    record, next_state = cell(
        ops.convert_to_tensor(inputs[:, 0]), cell.initial_state(constants, 3), constants
    )
    close(record.output, array(outputs)[:, 0], 1e-6)
    close(next_state.attention[0], record.output, 1e-9)
    close(record.hidden, next_state.cells[0][0], 1e-9)


def test_attention_dropout_only_in_training_and_not_in_returned_weights() -> None:
    inputs, memory = normal((3, 4, 4), (3, 5, 7))
    cell = AttentionCell(
        layers.GRUCell(6),
        AdditiveAttention(8, dropout=0.5),
        order="step_then_attend",
        input_feeding=False,
    )
    decoder = build_random(RecurrentDecoder(cell, alignment_history=True), inputs, memory)
    outputs, (weights,) = decoder(inputs, memory)
    training_outputs, (training_weights,) = decoder(inputs, memory, training=True)
    training_outputs_again, _ = decoder(inputs, memory, training=True)
    close(training_weights, weights, 1e-6)
    assert np.abs(array(training_outputs) - array(outputs)).max() > 1e-3
    assert np.abs(array(training_outputs) - array(training_outputs_again)).max() > 1e-3
    close(decoder(inputs, memory)[0], outputs, 1e-9)
