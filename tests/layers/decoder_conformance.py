"""Conformance of recurrent decoders with attention."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import AdditiveAttention, AttentionCell, RecurrentDecoder
from attention_zoo.ops import attach_mask, implicit_mask
from tests.layers.attention_case import garbage
from tests.layers.layer_conformance import LayerConformance
from tests.layers.running import all_finite, array, close, differentiable, quick, randomise, same

B, T, S = 3, 4, 5
INPUTS_MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1]], "bool")
MEMORY_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], "bool")


class DecoderConformance(LayerConformance):
    """An attention cell or its decoder. A case sets arguments of the cell in `cell_options`."""

    cell_options: ClassVar[dict[str, Any]] = {}
    tolerance = 1e-5

    def cell(self, dtype: Any = None, **options: Any) -> AttentionCell:
        return AttentionCell(
            **{
                "cell": layers.GRUCell(
                    6, recurrent_initializer="glorot_uniform", dtype=dtype, name="gru"
                ),
                "attention": AdditiveAttention(8, dtype=dtype, name="look"),
                "dtype": dtype,
                "name": "cell",
                **self.cell_options,
                **options,
            }
        )

    def decoder(self, **options: Any) -> RecurrentDecoder:
        """Return a built decoder with random weights that returns outputs, weights and states."""
        decoder = RecurrentDecoder(
            self.cell(), alignment_history=True, return_state=True, **options
        )
        decoder(*self.tensors())
        randomise(decoder)
        return decoder

    def tensors(self, batch: int = B) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng(0)
        shapes = ((batch, T, 4), (batch, S, 7))
        return tuple(rng.normal(size=shape).astype("float32") for shape in shapes)

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_steps_equal_the_call(self) -> None:
        """Single steps, as in a search, equal the teacher-forced pass."""
        decoder, (inputs, memory) = self.decoder(), self.tensors()
        outputs, weights, states = decoder(inputs, memory, memory_mask=MEMORY_MASK)
        prepared, state = decoder.start(ops.convert_to_tensor(memory), None, MEMORY_MASK, B)
        for t in range(T):
            record, state = decoder.step(ops.convert_to_tensor(inputs[:, t]), state, prepared)
            close(record.output, array(outputs)[:, t], 1e-5)
            close(record.weights[0], array(weights[0])[:, t], 1e-5)
        close(state.cells, states, 1e-5)

    def test_hypotheses_do_not_affect_each_other(self) -> None:
        decoder, (inputs, memory) = self.decoder(), self.tensors()
        prepared, state = decoder.start(ops.convert_to_tensor(memory), None, MEMORY_MASK, B)
        rng = np.random.default_rng(1)
        states = keras.tree.map_structure(
            lambda x: ops.convert_to_tensor(
                rng.normal(size=(B, T, *x.shape[1:])).astype("float32")
            ),
            state,
        )
        together, after = decoder.step(ops.convert_to_tensor(inputs), states, prepared)
        for n in range(T):
            row_state = keras.tree.map_structure(lambda x, n=n: x[:, n], states)
            single, next_state = decoder.step(
                ops.convert_to_tensor(inputs[:, n]), row_state, prepared
            )
            close(array(together.output)[:, n], single.output, 1e-5)
            close(array(together.weights[0])[:, n], single.weights[0], 1e-5)
            for a, b in zip(keras.tree.flatten(after), keras.tree.flatten(next_state), strict=True):
                close(array(a)[:, n], b, 1e-5)

    @pytest.mark.numerics
    def test_masked_steps_keep_the_state(self) -> None:
        """Left, right and inner padding: the same as without the masked steps."""
        decoder, (inputs, memory) = self.decoder(), self.tensors()
        outputs, weights, states = decoder(inputs, memory, inputs_mask=INPUTS_MASK)
        assert not array(outputs)[~INPUTS_MASK].any()
        assert not array(weights[0])[~INPUTS_MASK].any()
        same(implicit_mask(outputs), INPUTS_MASK)
        for row in (1, 2):
            valid = INPUTS_MASK[row]
            single, _, last = decoder(inputs[row : row + 1, valid], memory[row : row + 1])
            close(array(outputs)[row, valid], single[0], 1e-5)
            for got, expected in zip(states, last, strict=True):
                close(got[row], expected[0], 1e-5)

    def test_explicit_and_implicit_masks_combine_by_and(self) -> None:
        decoder, (inputs, memory) = self.decoder(), self.tensors()
        other, hidden = np.roll(INPUTS_MASK, 1, 1), np.roll(MEMORY_MASK, 1, 1)
        expected = decoder(
            inputs, memory, inputs_mask=INPUTS_MASK & other, memory_mask=MEMORY_MASK & hidden
        )
        carrying = attach_mask(ops.convert_to_tensor(inputs), ops.convert_to_tensor(INPUTS_MASK))
        masked = attach_mask(ops.convert_to_tensor(memory), ops.convert_to_tensor(MEMORY_MASK))
        got = decoder(carrying, masked, inputs_mask=other, memory_mask=hidden)
        same(got, expected)
        same(implicit_mask(masked), MEMORY_MASK)

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_values_at_masked_positions_do_not_affect_outputs(self) -> None:
        decoder, (inputs, memory) = self.decoder(), self.tensors()
        run = differentiable(
            decoder, lambda x, m: decoder(x, m, inputs_mask=INPUTS_MASK, memory_mask=MEMORY_MASK)
        )
        expected = run(garbage(inputs, INPUTS_MASK, 0), garbage(memory, MEMORY_MASK, 0))
        got = run(garbage(inputs, INPUTS_MASK, np.nan), garbage(memory, MEMORY_MASK, np.inf))
        same(got, expected)
        assert all_finite(got)
        assert not got[1][0][~INPUTS_MASK].any()
        assert not got[1][1][~MEMORY_MASK].any()
        assert not got[0][1][0][2].any(), "a memory with nothing to attend weighs 0"

    def test_padding_does_not_affect_outputs(self) -> None:
        decoder, (inputs, memory) = self.decoder(), self.tensors()
        outputs, weights, states = decoder(inputs, memory, memory_mask=MEMORY_MASK)
        rng = np.random.default_rng(2)
        pads = [
            50 * rng.normal(size=(B, 9, x.shape[2])).astype("float32") for x in (inputs, memory)
        ]
        none = np.zeros((B, 9), "bool")
        padded, attention_weights, last = decoder(
            np.concatenate([inputs, pads[0]], 1),
            np.concatenate([memory, pads[1]], 1),
            inputs_mask=np.concatenate([np.ones((B, T), "bool"), none], 1),
            memory_mask=np.concatenate([MEMORY_MASK, none], 1),
        )
        close(array(padded)[:, :T], outputs, 1e-5)
        close(array(attention_weights[0])[:, :T, :S], weights[0], 1e-5)
        close(last, states, 1e-5)

    def test_returned_fields_do_not_change_outputs(self) -> None:
        decoder, tensors = self.decoder(), self.tensors()
        outputs = quick(lambda *x: decoder(*x))(*tensors)[0]
        decoder.alignment_history = decoder.return_state = False
        close(decoder(*tensors), outputs, 1e-6)
