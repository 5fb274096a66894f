"""Cell steppers equal the Keras cells; their dropout masks are sampled once per call."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import RecurrentDecoder
from attention_zoo.layers.recurrent.cell_steps import CellStepper, get_state_sizes, make_stepper
from tests.layers.recurrent.cells import CELLS
from tests.layers.running import JAX, MODES, array, close, randomise

SINGLE = [name for name in CELLS if name != "stack"]


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("fed_width", [0, 3])
def test_cell_stepper_equals_the_cell(name: str, fed_width: int) -> None:
    cell = CELLS[name]()
    cell.build((2, 4 + fed_width))
    randomise(cell)
    rng = np.random.default_rng(0)
    sizes = [4, fed_width, *get_state_sizes(cell)]
    inputs, fed, *states = (
        ops.convert_to_tensor(rng.normal(size=(2, size)).astype("float32")) for size in sizes
    )
    expected, after = cell(ops.concatenate([inputs, fed], -1), states)
    step = make_stepper(cell, 4, training=False)
    feedback, kernels = [fed] if fed_width else [], step.kernels("float32")
    got, new = step.step(step.hoist(inputs), feedback, tuple(states), kernels)
    close(got, expected, 1e-6)
    close(new, after, 1e-6)


def test_input_projection_of_known_cells_is_hoisted() -> None:
    split = {
        name: type(make_stepper(CELLS[name](), 4, False)) is not CellStepper for name in SINGLE
    }
    assert split == {name: name not in ("unknown", "projected") for name in SINGLE}
    assert type(make_stepper(CELLS["dropping"](), 4, True)) is CellStepper


def listening(dropout: float, recurrent_dropout: float, units: int = 64) -> RecurrentDecoder:
    """A linear cell that exposes its dropout masks: h_t = x_t * m + h_{t-1} * r."""
    ones = {"kernel_initializer": "identity", "recurrent_initializer": "identity"}
    cell = layers.SimpleRNNCell(
        units, None, False, dropout=dropout, recurrent_dropout=recurrent_dropout, **ones
    )
    return RecurrentDecoder(cell)


def trained(decoder: RecurrentDecoder, mode: str) -> Any:
    """Call in training; on JAX the new seed state is kept, as in a Keras trainer."""
    if not JAX:
        import tensorflow as tf

        def run(x: Any, start: Any) -> Any:
            return decoder(x, None, [start], training=True)

        return run if mode == "eager" else tf.function(run, jit_compile=mode == "xla")
    import jax

    def run(variables: list[Any], x: Any, start: Any) -> Any:
        with keras.StatelessScope(list(zip(decoder.variables, variables, strict=True))) as scope:
            outputs = decoder(x, None, [start], training=True)
        return outputs, [scope.get_current_value(v) for v in decoder.variables]

    fast = run if mode == "eager" else jax.jit(run)

    def keep(x: Any, start: Any) -> Any:
        outputs, values = fast([v.value for v in decoder.variables], x, start)
        for variable, value in zip(decoder.variables, values, strict=True):
            variable.assign(value)
        return outputs

    return keep


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["input", "recurrent"])
def test_dropout_mask_is_sampled_once_per_call(where: str, mode: str) -> None:
    rates, arguments = ((0.5, 0.0), (1, 0)) if where == "input" else ((0.0, 0.5), (0, 1))
    decoder = listening(*rates)
    inputs, start = (
        np.full(x, n, "float32") for x, n in zip(((2, 3, 64), (2, 64)), arguments, strict=True)
    )
    decoder(inputs, None, [start])
    run = trained(decoder, mode)
    first, second = array(run(inputs, start)), array(run(inputs, start))
    if where == "input":
        close(first, np.cumsum(np.repeat(first[:, :1], 3, axis=1), axis=1), 1e-6)
        assert set(np.unique(first[:, 0])) == {0.0, 2.0}
    else:
        assert set(np.unique(first[:, 2])) == {0.0, 8.0}
    assert (first[:, 0] != second[:, 0]).any()
    assert (first[0, 0] != first[1, 0]).any()


def test_dropout_masks_are_reset_after_training() -> None:
    decoder = listening(0.5, 0.5)
    inputs = np.ones((2, 3, 64), "float32")
    before = array(decoder(inputs))
    decoder(inputs, training=True)
    close(decoder(inputs), before, 1e-9)
    close(decoder(inputs[:1]), before[:1], 1e-9)
