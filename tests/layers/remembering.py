"""What holds for every attention whose looks depend on the looks before them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import AttentionCell, RecurrentDecoder
from tests.layers.attention_case import VALUE_MASK, Array, AttentionCase, Result, Weights, numbers
from tests.layers.conformance import AttentionConformance, NumericLaws
from tests.layers.running import (
    JAX,
    MODES,
    array,
    arrays,
    build_random,
    close,
    compiled,
    differentiable,
)

B, T, S = 3, 4, 5
INPUTS_MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1]], "bool")


class RememberingCase(AttentionCase):
    """A case says in NumPy where a row of looks starts, what one look weighs, and what it leaves.

    One look: `state`, `(..., X)`, and query `(Dq,)`, keys `(S, Dk)`, mask `(S,)`.
    """

    def start(self, sources: int) -> Array:
        raise TypeError("a case says where looks start")

    def one(self, weights: Weights, query: Array, key: Array, mask: Array, state: Array) -> Result:
        """Weights and the next state."""
        raise TypeError("a case says what a look does")

    def oracle(self, weights: Weights, tensors: tuple[Array, ...], mask: Array) -> Result:
        query, value, key = (x.astype("float64") for x in tensors)
        looked = np.zeros((*query.shape[:2], value.shape[1]))
        for row in range(len(query)):
            state = self.start(value.shape[1])
            for t in range(query.shape[1]):
                if mask[row, t].any():
                    look = self.one(weights, query[row, t], key[row], mask[row, t], state)
                    looked[row, t], state = look
        return looked @ value, looked


class StatefulConformance(RememberingCase, NumericLaws):
    """Values and gradients over several steps, the state, and use inside a decoder."""

    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES)
    def test_state_is_that_of_the_last_look(self, mode: str) -> None:
        layer, tensors = self.built(), self.tensors()
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
        layer, tensors = self.built(), self.tensors()
        _, eager = layer(*tensors, return_state=True)
        inputs = [keras.Input(x.shape[1:]) for x in tensors]
        _, symbolic = self.make()(*inputs, return_state=True)
        shapes = [tuple(x.shape[1:]) for x in keras.tree.flatten(eager)]
        assert [tuple(x.shape[1:]) for x in keras.tree.flatten(symbolic)] == shapes

    @pytest.mark.skipif(JAX, reason="JAX knows every length when it compiles")
    def test_lengths_known_only_when_it_runs(self) -> None:
        import tensorflow as tf

        layer = self.built()
        widths = (self.widths[0], self.widths[2], self.widths[1])
        signature = [tf.TensorSpec((None, None, width)) for width in widths]
        signature.append(tf.TensorSpec((None, None), "bool"))
        run = tf.function(
            lambda q, v, k, mask: layer(q, v, k, value_mask=mask, return_attention_scores=True),
            input_signature=signature,
            autograph=False,
        )
        for batch, steps, sources in ((B, T, S), (2, 1, 9), (1, 6, 1), (0, T, S), (B, 0, S)):
            tensors = self.tensors(batch, steps, sources)
            mask = np.arange(sources) < np.arange(1, batch + 1)[:, None]
            _, weights = run(*tensors, mask)
            _, wanted = self.oracle(numbers(layer), tensors, _of_looks(mask, steps))
            close(weights, wanted, 1e-6)
        context, _ = run(*self.tensors(B, T, 0), np.ones((B, 0), "bool"))
        assert context.shape == (B, T, self.widths[2])
        assert not array(context).any()

    # in a decoder

    def decoder(self, **options: Any) -> RecurrentDecoder:
        cell = AttentionCell(layers.GRUCell(6), self.make(), attention_layer_size=8)
        decoder = RecurrentDecoder(cell, alignment_history=True, **options)
        build_random(decoder, *self.sequences())
        return decoder

    def sequences(self) -> list[Array]:
        """Inputs and memory."""
        rng = np.random.default_rng(0)
        return [rng.normal(size=(B, *s)).astype("float32") for s in ((T, 4), (S, 7))]

    @pytest.mark.every_backend
    def test_decoder_steps_are_the_whole(self) -> None:
        decoder, (inputs, memory) = self.decoder(), self.sequences()
        outputs, (weights,) = decoder(inputs, memory, memory_mask=VALUE_MASK)
        prepared, state = decoder.start(ops.convert_to_tensor(memory), None, VALUE_MASK, B)
        for t in range(T):
            record, state = decoder.step(ops.convert_to_tensor(inputs[:, t]), state, prepared)
            close(record.output, array(outputs)[:, t], 1e-5)
            close(record.weights[0], array(weights)[:, t], 1e-5)

    def test_decoder_looks_as_the_attention_does(self) -> None:
        """Without feedback, the decoder's weights are those of one call with its queries."""
        decoder, (inputs, memory) = self.decoder(), self.sequences()
        decoder.cell.input_feeding = False
        prepared, state = decoder.start(ops.convert_to_tensor(memory), None, VALUE_MASK, B)
        assert not decoder.cell.looks_later
        record, _ = decoder.unroll(
            ops.convert_to_tensor(inputs), prepared, state, INPUTS_MASK, ("query", "weights")
        )
        _, wanted = decoder.cell.attentions[0](
            record["query"],
            memory,
            value_mask=VALUE_MASK,
            query_mask=INPUTS_MASK,
            return_attention_scores=True,
        )
        close(record["weights"][0], wanted, 1e-5)

    @pytest.mark.full
    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_gradient_in_a_decoder_reaches_every_weight(self, mode: str) -> None:
        decoder, (inputs, memory) = self.decoder(), self.sequences()

        def call(inputs: Any, memory: Any) -> Any:
            return decoder(inputs, memory, inputs_mask=INPUTS_MASK, memory_mask=VALUE_MASK)

        outputs, by_inputs, by_weights = differentiable(decoder, call, mode)(inputs, memory)
        assert all(np.isfinite(x).all() for x in keras.tree.flatten(outputs))
        assert all(np.isfinite(x).all() for x in (*by_inputs, *by_weights))
        assert not by_inputs[1][~VALUE_MASK].any()
        names = [v.path for v in decoder.trainable_variables]
        assert [n for n, x in zip(names, by_weights, strict=True) if not x.any()] == []

    @pytest.mark.full
    def test_trains_in_a_decoder(self) -> None:
        """A step of `fit`, in graph mode on TensorFlow, moves every weight and nothing to NaN."""
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


class RememberingConformance(StatefulConformance, AttentionConformance):
    """All of the attention contract, and the state."""


def _of_looks(mask: Array, steps: int) -> Array:
    return np.repeat(mask[:, None], steps, axis=1)
