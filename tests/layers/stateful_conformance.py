"""Conformance of stateful attention layers, whose steps depend on previous steps."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import AttentionCell, RecurrentDecoder
from tests.layers.attention_case import VALUE_MASK, Array, AttentionCase, Result, Weights
from tests.layers.conformance import AttentionConformance, NumericConformance
from tests.layers.decoder_conformance import INPUTS_MASK, B, S, T
from tests.layers.running import (
    JAX,
    MODES,
    all_finite,
    array,
    arrays,
    build_random,
    close,
    compiled,
    differentiable,
    needs_dynamic_shapes,
    normal,
    with_dynamic_shapes,
)
from tests.tiers import FULL, ORACLE_CASES, mark_others_full


class StatefulCase(AttentionCase):
    """A case implements in NumPy the initial state, and the weights and next state of a step.

    One step: `state`, `(..., X)`, and query `(Dq,)`, keys `(S, Dk)`, mask `(S,)`.
    """

    def start(self, sources: int) -> Array:
        return np.zeros(sources)

    def step_oracle(
        self, weights: Weights, query: Array, key: Array, mask: Array, state: Array
    ) -> Result:
        """Return weights and the next state."""
        raise TypeError("a case implements step_oracle")

    def oracle(self, weights: Weights, tensors: tuple[Array, ...], mask: Array) -> Result:
        query, value, key = (x.astype("float64") for x in tensors)
        attention_weights = np.zeros((*query.shape[:2], value.shape[1]))
        for row in range(len(query)):
            state = self.start(value.shape[1])
            for t in range(query.shape[1]):
                if mask[row, t].any():
                    result = self.step_oracle(weights, query[row, t], key[row], mask[row, t], state)
                    attention_weights[row, t], state = result
        return attention_weights @ value, attention_weights


class InDecoderConformance(AttentionCase):
    """Use inside a decoder, and sequences of dynamic length."""

    @needs_dynamic_shapes
    def test_dynamic_lengths(self) -> None:
        """Return outputs and gradients."""
        import tensorflow as tf

        layer = self.make_random()

        def call(query: Any, value: Any, key: Any, mask: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(value)
                results = layer(query, value, key, value_mask=mask, return_attention_scores=True)
            return results, tape.gradient(results, value)

        specs = [(None, None, x.shape[-1]) for x in self.tensors()]
        run = with_dynamic_shapes(call, *specs, ((None, None), "bool"))
        sizes = ((B, T, S), (2, 1, 9), (1, 6, 1), (1, 7, 2), (3, 1, 40), (0, T, S), (B, 0, S))
        for batch, steps, sources in sizes if FULL else sizes[::2]:
            tensors = self.tensors(batch, steps, sources)
            mask = np.arange(sources) < np.arange(1, batch + 1)[:, None]
            results, gradient = run(*tensors, mask)
            close(results, layer(*tensors, value_mask=mask, return_attention_scores=True), 1e-6)
            assert all_finite(gradient)
        for steps in (0, T):
            (context, weights), _ = run(*self.tensors(B, steps, 0), np.ones((B, 0), "bool"))
            assert context.shape == (B, steps, self.widths[2])
            assert weights.shape == (B, steps, 0)
            assert not array(context).any()

    def decoder(self, **options: Any) -> RecurrentDecoder:
        cell = AttentionCell(layers.GRUCell(6), self.make(), attention_layer_size=8)
        decoder = RecurrentDecoder(cell, alignment_history=True, **options)
        return build_random(decoder, *self.sequences())

    def sequences(self) -> list[Array]:
        """Return inputs and memory."""
        return normal((B, T, 4), (B, S, 7))

    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", mark_others_full(MODES))
    def test_decoder_steps_equal_the_call(self, mode: str) -> None:
        """Compare row by row with single steps that skip the masked ones."""
        decoder, (inputs, memory) = self.decoder(), self.sequences()
        masks = {"inputs_mask": INPUTS_MASK, "memory_mask": VALUE_MASK}
        full = compiled(lambda x, y: decoder(x, y, **masks), mode)
        outputs, (weights,) = arrays(full(*map(ops.convert_to_tensor, (inputs, memory))))
        for row in range(B):
            one = slice(row, row + 1)
            mask = ops.convert_to_tensor(VALUE_MASK[one])
            prepared, state = decoder.start(ops.convert_to_tensor(memory[one]), None, mask, 1)
            for t in np.flatnonzero(INPUTS_MASK[row]):
                now = ops.convert_to_tensor(inputs[one, t])
                record, state = decoder.step(now, state, prepared)
                close(record.output, outputs[one, t], 1e-5)
                close(record.weights[0], weights[one, t], 1e-6)
        assert not weights[~INPUTS_MASK].any()

    @pytest.mark.full
    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_gradient_in_a_decoder_reaches_every_weight(self, mode: str) -> None:
        decoder, (inputs, memory) = self.decoder(), self.sequences()

        def call(inputs: Any, memory: Any) -> Any:
            return decoder(inputs, memory, inputs_mask=INPUTS_MASK, memory_mask=VALUE_MASK)

        outputs, by_inputs, by_weights = differentiable(decoder, call, mode)(inputs, memory)
        assert all_finite(outputs, by_inputs, by_weights)
        assert not by_inputs[1][~VALUE_MASK].any()
        names = [v.path for v in decoder.trainable_variables]
        assert [n for n, x in zip(names, by_weights, strict=True) if not x.any()] == []

    @pytest.mark.full
    def test_trains_in_a_decoder(self) -> None:
        """A step of `fit`, in graph mode on TensorFlow, changes every weight and gives no NaN."""
        inputs, memory = self.sequences()
        read = [keras.Input(x.shape[1:]) for x in (inputs, memory)]
        outputs, (weights,) = self.decoder()(*read)
        model = keras.Model(read, [outputs, weights])
        model.compile(keras.optimizers.SGD(0.1), ["mse", "mse"], jit_compile=JAX)
        targets = [np.ones((B, T, 8), "float32"), np.ones((B, T, S), "float32") / S]
        before = arrays(model.trainable_variables)
        losses = [model.train_on_batch([inputs, memory], targets)[0] for _ in range(3)]
        assert np.isfinite(losses).all()
        assert losses[2] < losses[0]
        for old, new in zip(before, model.trainable_variables, strict=True):
            assert np.isfinite(array(new)).all()
            assert np.abs(array(new) - old).max() > 0, new.path


class StatefulConformance(StatefulCase, NumericConformance, InDecoderConformance):
    """Values and gradients over several steps, the state, and use inside a decoder."""

    oracle_cases = ORACLE_CASES if FULL else 8  # each has up to 6 steps

    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES)
    def test_state_equals_that_of_the_last_step(self, mode: str) -> None:
        layer, tensors = self.make_random(), self.tensors()
        run = compiled(
            lambda *x: layer(*x, value_mask=VALUE_MASK, query_mask=INPUTS_MASK, return_state=True),
            mode,
        )
        _, after = run(*tensors)
        memory = layer.prepare(*tensors[1:], VALUE_MASK)
        for row in range(B):
            state = layer.initial_state(memory)
            for t in np.flatnonzero(INPUTS_MASK[row]):
                _, _, state = layer.attend(tensors[0][:, t], memory, state)
            for a, b in zip(*map(keras.tree.flatten, (after, state)), strict=True):
                close(array(a)[row], array(b)[row], 1e-5)

    def test_state_of_symbolic_tensors(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        _, eager = layer(*tensors, return_state=True)
        inputs = [keras.Input(x.shape[1:]) for x in tensors]
        _, symbolic = self.make()(*inputs, return_state=True)
        shapes = [tuple(x.shape[1:]) for x in keras.tree.flatten(eager)]
        assert [tuple(x.shape[1:]) for x in keras.tree.flatten(symbolic)] == shapes

    def test_decoder_attention_equals_the_layer(self) -> None:
        """Without feedback, the decoder's weights are those of one call with its queries."""
        decoder, (inputs, memory) = self.decoder(), self.sequences()
        decoder.cell.input_feeding = False
        prepared, state = decoder.start(ops.convert_to_tensor(memory), None, VALUE_MASK, B)
        assert not decoder.cell.can_attend_after_loop
        record, _ = decoder.unroll(
            ops.convert_to_tensor(inputs), prepared, state, INPUTS_MASK, ("query", "weights")
        )
        masks = {"value_mask": VALUE_MASK, "query_mask": INPUTS_MASK}
        attention = decoder.cell.attentions[0]
        _, expected = attention(record["query"], memory, **masks, return_attention_scores=True)
        close(record["weights"][0], expected, 1e-5)


class StatefulAttentionConformance(StatefulConformance, AttentionConformance):
    """Attention conformance, with tests of the state."""
