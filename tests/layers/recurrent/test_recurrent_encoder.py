from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import RecurrentDecoder, RecurrentEncoder
from attention_zoo.ops import implicit_mask
from tests.layers.attention_case import garbage
from tests.layers.conformance import LayerConformance
from tests.layers.running import all_finite, array, close, differentiable, randomise, same

MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], "bool")
KINDS = {
    "lstm": {"cell": "lstm", "num_layers": 2},
    "lstm_backwards": {"cell": "lstm", "num_layers": 2, "go_backwards": True},
    "gru_both": {"cell": "gru", "num_layers": 2, "bidirectional": True},
    "simple": {"cell": "simple_rnn"},
}


class TestRecurrentEncoder(LayerConformance):
    covers = RecurrentEncoder
    options = {"cell": "gru", "units": 6, "bidirectional": True}
    changed = {
        "cell": "lstm",
        "units": 8,
        "num_layers": 2,
        "bidirectional": False,
        "go_backwards": True,
        "dropout": 0.3,
    }
    together = {
        "dropout": {"num_layers": 2, "bidirectional": False},
        "go_backwards": {"bidirectional": False},
    }
    formula = False
    tolerance = 1e-5
    keras_cells = True

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        return (np.random.default_rng(0).normal(size=(batch, 5, 4)).astype("float32"),)


def encoder(kind: str) -> tuple[RecurrentEncoder, np.ndarray]:
    inputs = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    layer = RecurrentEncoder(units=6, **KINDS[kind])
    layer(inputs)
    randomise(layer)
    return layer, inputs


@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_affect_outputs(kind: str) -> None:
    layer, inputs = encoder(kind)
    memory, states = layer(inputs, mask=MASK)
    same(implicit_mask(memory), MASK)
    assert not array(memory)[~MASK].any()
    assert not any(array(state)[2].any() for state in states)
    single, last = layer(inputs[1:2, :3])
    close(array(memory)[1:2, :3], single, 1e-5)
    for got, expected in zip(states, last, strict=True):
        close(got[1:2], expected, 1e-5)


def test_values_at_masked_positions_do_not_affect_outputs() -> None:
    layer, inputs = encoder("gru_both")
    run = differentiable(layer, lambda x: layer(x, mask=MASK))
    expected, got = run(garbage(inputs, MASK, 0)), run(garbage(inputs, MASK, np.nan))
    same(np.atleast_1d(got[1]), np.atleast_1d(expected[1]))
    assert all_finite(np.atleast_1d(got[1]))
    same(got[0][0], expected[0][0])


def test_backward_encoder_memory_keeps_source_order() -> None:
    """Row j depends on positions j and later only."""
    layer, inputs = encoder("lstm_backwards")
    memory, _ = layer(inputs)
    changed = inputs.copy()
    changed[:, 1] += 1
    shifted = np.abs(array(layer(changed)[0]) - array(memory)).max(axis=(0, 2)) > 1e-6
    assert shifted.tolist() == [True, True, False, False, False]


def test_directions_are_concatenated_as_in_keras() -> None:
    layer, inputs = encoder("gru_both")
    layer = RecurrentEncoder("gru", 6, bidirectional=True)
    memory, (state,) = layer(inputs)
    theirs = layers.Bidirectional(layers.GRU(3, return_sequences=True))
    theirs.build(inputs.shape)
    theirs.set_weights(layer.get_weights())
    close(memory, theirs(inputs), 1e-5)
    close(array(state)[:, :3], array(memory)[:, -1, :3], 1e-6)
    close(array(state)[:, 3:], array(memory)[:, 0, 3:], 1e-6)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_inside_keras_bidirectional(cell: str, tmp_path: Path) -> None:
    """The same as `bidirectional=True`, except that the states of both directions are separate."""
    _, inputs = encoder("simple")
    wrapped = layers.Bidirectional(RecurrentEncoder(cell, 3))
    memory, forward, backward = wrapped(inputs, mask=MASK)
    assert wrapped.compute_output_shape(inputs.shape)[0] == memory.shape
    layer = RecurrentEncoder(cell, 6, bidirectional=True)
    layer(inputs)
    layer.set_weights(wrapped.get_weights())
    expected, states = layer(inputs, mask=MASK)
    close(memory, expected, 1e-6)
    for pair, state in zip(zip(forward, backward, strict=True), states, strict=True):
        close(ops.concatenate(pair, axis=-1), state, 1e-6)
    model = keras.Sequential([keras.Input((None, 4)), wrapped])
    model.save(tmp_path / "model.keras")
    same(keras.models.load_model(tmp_path / "model.keras")(inputs), model(inputs))


def test_keras_bidirectional_rejects_both_directions() -> None:
    with pytest.raises(ValueError, match="RecurrentEncoder with bidirectional=True processes"):
        layers.Bidirectional(RecurrentEncoder("gru", 6, bidirectional=True))


@pytest.mark.parametrize("kind", ["lstm", "simple"])
def test_initial_state_continues_a_sequence(kind: str) -> None:
    layer, inputs = encoder(kind)
    expected, expected_states = layer(inputs)
    first, middle = layer(inputs[:, :2])
    second, states = layer(inputs[:, 2:], initial_state=middle)
    close(ops.concatenate([first, second], axis=1), expected, 1e-6)
    close(states, expected_states, 1e-6)


def test_initial_state_of_both_directions() -> None:
    """The forward half of the bottom layer continues; the backward half starts at the end."""
    layer = RecurrentEncoder("lstm", 6, bidirectional=True)
    _, inputs = encoder("simple")
    _, middle = layer(inputs[:, :2])
    memory, _ = layer(inputs[:, 2:], initial_state=middle)
    close(array(memory)[..., :3], array(layer(inputs)[0])[:, 2:, :3], 1e-6)
    zeros = [ops.zeros_like(state) for state in middle]
    same(layer(inputs, initial_state=zeros), layer(inputs))


@pytest.mark.parametrize(
    ("kind", "shapes", "match"),
    [
        ("gru_both", [(3, 6)] * 3, r"of widths \[6, 6\], got \[6, 6, 6\]"),
        ("lstm", [(3, 6)] * 2, r"of widths \[6, 6, 6, 6\], got \[6, 6\]"),
        ("simple", [], r"of widths \[6\], got \[\]"),
        ("simple", [(3, 5)], r"of widths \[6\], got \[5\]"),
        ("simple", [(2, 6)], r"must be \(3, 6\), got shape \(2, 6\)"),
        ("simple", (3, 6), "must be a list of tensors"),
    ],
)
def test_initial_states_of_other_sizes_are_rejected(kind: str, shapes: Any, match: str) -> None:
    layer, inputs = encoder(kind)
    states = [np.zeros(x) for x in shapes] if isinstance(shapes, list) else np.zeros(shapes)
    symbolic = keras.tree.map_structure(lambda x: keras.KerasTensor(x.shape), (inputs, states))
    for arguments in ((inputs, states), symbolic):
        with pytest.raises(ValueError, match=f"initial_state .*{match}"):
            layer(arguments[0], initial_state=arguments[1])


def test_masks_may_be_positional_in_functional_models() -> None:
    inputs, mask = keras.KerasTensor((3, 5, 4)), keras.KerasTensor((3, 5), "bool")
    memory, (state,) = RecurrentEncoder("gru", 6)(inputs, mask)
    assert (memory.shape, state.shape) == ((3, 5, 6), (3, 6))
    decoder = RecurrentDecoder(layers.GRUCell(6))
    assert decoder(inputs, None, [state], mask).shape == (3, 5, 6)


def test_dropout_applies_between_layers() -> None:
    one, two = (RecurrentEncoder("gru", 6, n, dropout=0.5) for n in (1, 2))
    inputs = np.ones((2, 3, 4), "float32")
    close(one(inputs, training=True)[0], one(inputs)[0], 1e-6)
    assert np.abs(array(two(inputs, training=True)[0]) - array(two(inputs)[0])).max() > 1e-4
