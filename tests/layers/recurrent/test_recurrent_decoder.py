from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import (
    AdditiveAttention,
    AttentionCell,
    MonotonicAttention,
    MultiplicativeAttention,
    RecurrentDecoder,
)
from tests.layers.conformance import DecoderConformance
from tests.layers.recurrent.cells import CELLS, reference
from tests.layers.running import (
    MODES,
    QUICK,
    WIDE,
    array,
    build_random,
    check_gradients,
    close,
    compiled,
    differentiable,
    label,
    pairwise,
    quick,
)


class TestRecurrentDecoder(DecoderConformance):
    covers = RecurrentDecoder
    formula = False
    changed = {
        "cell": lambda: layers.LSTMCell(3, recurrent_initializer="glorot_uniform"),
        "bridge": True,
        "alignment_history": True,
        "return_state": True,
    }
    skip_nan_check_of = ("cell", "bridge")

    def make(self, dtype: Any = None, **options: Any) -> RecurrentDecoder:
        return RecurrentDecoder(**{"cell": self.cell(dtype), "dtype": dtype, **options})

    def compute_outputs(self, layer: Any, inputs: Any, memory: Any) -> Any:
        return layer(inputs, memory, initial_state=memory[:, 0] if layer.bridge else None)


PADDING = {
    "none": np.ones((3, 4), "bool"),
    "right": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], "bool"),
    "left": np.array([[1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0]], "bool"),
}
AXES: dict[str, tuple[Any, ...]] = {
    "cell": tuple(CELLS),
    "order": ("attend_then_step", "step_then_attend"),
    "input_feeding": (None, True, False),
    "attention_layer_size": (None, 5),
    "output_attention": (True, False),
    "padding": tuple(PADDING),
}


def build(inputs: np.ndarray, memory: Any, *arguments: Any, **options: Any) -> RecurrentDecoder:
    decoder = RecurrentDecoder(*arguments, alignment_history=True, return_state=True, **options)
    build_random(decoder, inputs, memory)
    return decoder


def random(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize("case", pairwise(AXES), ids=label)
def test_equals_its_definition(case: dict[str, Any]) -> None:
    case = dict(case)
    valid, kind = PADDING[case.pop("padding")], case.pop("cell")
    inputs, memory = random((3, 4, 4), (3, 5, 7))
    hidden = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], "bool")
    cell = AttentionCell(
        CELLS[kind](), MultiplicativeAttention(), attention_activation="tanh", **case
    )
    decoder = build(inputs, memory, cell)
    states = random(*[(3, size) for size in decoder.state_sizes])
    run = quick(lambda x, m, *s: decoder(x, m, list(s), inputs_mask=valid, memory_mask=hidden))
    plain = quick(lambda x, m, *s: reference(decoder, x, [m], [hidden], valid, list(s)))
    arguments = [ops.convert_to_tensor(x) for x in (inputs, memory, *states)]
    close(run(*arguments), plain(*arguments), 1e-5)


@pytest.mark.parametrize("order", AXES["order"])
def test_several_attentions_over_several_memories(order: str) -> None:
    inputs, first, second = random((3, 4, 4), (3, 5, 7), (3, 2, 3))
    masks = [np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]], "bool"), None]
    cell = AttentionCell(
        layers.LSTMCell(6), [AdditiveAttention(8), MultiplicativeAttention()], order=order
    )
    decoder = build(inputs, [first, second], cell)
    outputs, weights, _ = decoder(inputs, [first, second], memory_mask=masks)
    assert [tuple(w.shape) for w in weights] == [(3, 4, 5), (3, 4, 2)]
    valid = ops.ones((3, 4), "bool")
    zeros = [ops.zeros((3, 6))] * 2
    tensors = [ops.convert_to_tensor(x) for x in (inputs, first, second)]
    expected, attention_weights, _ = reference(
        decoder, tensors[0], tensors[1:], masks, valid, zeros
    )
    close(outputs, expected, 1e-5)
    close(weights, attention_weights, 1e-5)


def test_one_memory_serves_every_attention() -> None:
    inputs, memory = random((3, 4, 4), (3, 5, 7))
    cell = AttentionCell(layers.GRUCell(6), [AdditiveAttention(8), AdditiveAttention(8)])
    decoder = build(inputs, memory, cell)
    outputs, weights, _ = decoder(inputs, memory)
    close(outputs, decoder(inputs, [memory, memory])[0], 1e-6)
    assert np.abs(array(weights[0]) - array(weights[1])).max() > 1e-3


def test_inputs_or_memory_of_one_row_serve_every_row() -> None:
    inputs, memory = random((3, 4, 4), (1, 5, 7))
    masks = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], "bool")
    cell = AttentionCell(layers.GRUCell(6), MonotonicAttention(units=4, hard_at_inference=False))
    decoder = build(inputs, memory, cell)
    for mask in (None, masks, masks[1:2]):
        repeated = decoder(inputs, np.repeat(memory, 3, axis=0), memory_mask=mask)
        for one, many in zip(decoder(inputs, memory, memory_mask=mask)[:2], repeated, strict=False):
            keras.tree.map_structure(lambda x, y: close(x, y, 1e-6), one, many)
    memories = np.repeat(memory, 3, axis=0)
    outputs = decoder(inputs[:1], memories, memory_mask=masks)[0]
    expected = decoder(np.repeat(inputs[:1], 3, axis=0), memories, memory_mask=masks)[0]
    close(outputs, expected, 1e-6)
    spec = decoder.compute_output_spec(*map(keras.KerasTensor, ((1, 4, 4), (3, 5, 7))))
    assert spec[0].shape == outputs.shape


@pytest.mark.full
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_attention_after_the_loop_equals_attention_in_the_loop(
    dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, memory = random((3, 4, 4), (3, 5, 7))
    valid = PADDING["right"]
    results = []
    for later in (True, False):
        keras.utils.set_random_seed(3)
        attention = AdditiveAttention(8, dropout=dropout, seed=4)
        cell = AttentionCell(
            layers.LSTMCell(6), attention, input_feeding=False, attention_layer_size=5
        )
        assert cell.can_attend_after_loop
        monkeypatch.setattr(AttentionCell, "can_attend_after_loop", later)
        decoder = build(inputs, memory, cell)
        results.append(
            keras.tree.flatten(decoder(inputs, memory, inputs_mask=valid, training=True))
        )
        monkeypatch.undo()
    close(*results, 1e-5)


def test_bridge_initializes_every_state_from_one_vector() -> None:
    inputs, memory, vector = random((3, 4, 4), (3, 5, 7), (3, 9))
    cell = AttentionCell(layers.LSTMCell(6), AdditiveAttention(8))
    bridged = RecurrentDecoder(cell, bridge=True, return_state=True)
    build_random(bridged, inputs, memory, vector)
    named = {v.name: array(v) for v in bridged.weights}
    starts = [
        np.tanh(vector @ named[f"bridge_kernel_{i}"] + named[f"bridge_bias_{i}"]).astype("float32")
        for i in range(2)
    ]
    plain = RecurrentDecoder(cell, return_state=True)
    expected = keras.tree.flatten(plain(inputs, memory, starts))
    close(bridged(inputs, memory, vector), expected, 1e-5)


def test_without_attention_it_equals_keras_rnn() -> None:
    (inputs,) = random((3, 4, 4))
    valid = PADDING["left"]
    ours = RecurrentDecoder([layers.LSTMCell(6), layers.GRUCell(5)], return_state=True)
    build_random(ours, inputs)
    cells = [layers.LSTMCell(6), layers.GRUCell(5)]
    theirs = layers.RNN(cells, return_sequences=True)
    theirs(inputs)
    theirs.set_weights(ours.get_weights())
    outputs, states = ours(inputs, inputs_mask=valid)
    close(outputs, np.where(valid[..., None], array(theirs(inputs, mask=valid)), 0), 1e-5)
    assert len(states) == 3


class CellStartingAtOne(layers.GRUCell):
    """A cell whose initial state is not zero."""

    def get_initial_state(self, batch_size: Any = None) -> Any:
        return ops.ones((batch_size, self.units))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stacked", [False, True])
def test_initial_state_of_the_cell_is_used(stacked: bool, mode: str) -> None:
    """As in `keras.layers.RNN`, the initial state of a cell in a stack is used too."""
    inputs, start = random((2, 3, 4), (2, 6))
    cell = CellStartingAtOne(6)
    decoder = RecurrentDecoder([cell, layers.LSTMCell(5)] if stacked else cell)
    expected = layers.RNN(decoder.cell.cell, return_sequences=True)(inputs)
    close(compiled(decoder, mode)(inputs), expected, 1e-6)
    states = [start] if not stacked else [start, start[:, :5], start[:, :5]]
    given = decoder(inputs, initial_state=states)
    assert np.abs(array(given) - array(expected)).max() > 1e-3


def test_output_of_another_width_than_declared_is_rejected() -> None:
    """Keras's `RNN` does not need `output_size`; a message names the class and the fix."""
    cell = CELLS["projected"]()
    cell.build((2, 4))
    cell.output_size = None
    match = r"ProjectedCell returns outputs of width 3, but .*state_size is 6.*output_size=3"
    with pytest.raises(ValueError, match=match):
        RecurrentDecoder([cell, layers.GRUCell(5)])(np.ones((2, 3, 4), "float32"))


def test_bidirectional_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"^RecurrentDecoder decodes from left to right.*bidir"):
        layers.Bidirectional(RecurrentDecoder(layers.GRUCell(6)))


@pytest.mark.parametrize("order", AXES["order"])
def test_gradients_are_finite_differences(order: str) -> None:
    inputs, memory = (x.astype(WIDE) for x in random((2, 3, 3), (2, 4, 5)))
    cell = AttentionCell(
        layers.GRUCell(3, dtype=WIDE),
        AdditiveAttention(4, dtype=WIDE),
        order=order,
        attention_layer_size=3,
        dtype=WIDE,
    )
    decoder = build_random(RecurrentDecoder(cell, dtype=WIDE), inputs, memory)
    valid = np.array([[1, 1, 1], [0, 1, 0]], "bool")
    mask = np.array([[1, 1, 1, 1], [1, 0, 0, 0]], "bool")
    run = differentiable(
        decoder, lambda x, m: decoder(x, m, inputs_mask=valid, memory_mask=mask), QUICK
    )
    check_gradients(decoder, run, [inputs, memory])


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES[1:])
def test_gradients_compile(mode: str) -> None:
    inputs, memory = random((3, 4, 4), (3, 5, 7))
    decoder = build(inputs, memory, AttentionCell(layers.LSTMCell(6), AdditiveAttention(8)))
    eager = differentiable(decoder, decoder, QUICK)(inputs, memory)
    got = differentiable(decoder, decoder, mode)(inputs, memory)
    close(got, eager, 1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [(0, 4, 5), (3, 1, 1), (3, 4, 0)], ids=str)
def test_small_sizes(sizes: tuple[int, int, int], mode: str) -> None:
    inputs, memory = random((3, 4, 4), (3, 5, 7))
    decoder = build(inputs, memory, AttentionCell(layers.GRUCell(6), AdditiveAttention(8)))
    batch, steps, sources = sizes
    inputs, memory = random((batch, steps, 4), (batch, sources, 7))
    outputs, weights, _ = compiled(decoder, mode)(inputs, memory)
    assert tuple(outputs.shape) == (batch, steps, 7)
    assert tuple(weights[0].shape) == (batch, steps, sources)
    assert np.isfinite(array(outputs)).all()
    if sources == 0:
        assert not array(outputs).any()


def test_keras_cell_runs_in_the_decoder_dtype() -> None:
    decoder = RecurrentDecoder(keras.layers.GRUCell(4), dtype="mixed_bfloat16")
    assert decoder.cell.compute_dtype == "bfloat16"
    outputs = decoder(np.ones((2, 3, 5), "float32"))
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


GIVEN = {"inputs": ones(2, 3, 5), "memory": ones(2, 6, 7)}
INPUTS = r"inputs must be \(batch, steps, (5|features)\), got"
STATE = r"initial_state must be \(2, 6\), got shape"
WRONG: dict[str, dict[str, Any]] = {
    rf"{INPUTS} shape \(2, 5\)": {"inputs": ones(2, 5)},
    rf"{INPUTS} shape \(2, 3, 5, 1\)": {"inputs": ones(2, 3, 5, 1)},
    r"(memory|value) must be .*, got shape \(2, 7\)": {"memory": ones(2, 7)},
    r"memory must be \(2, positions, 7\), got .*\(3, 6, 7\)": {"memory": ones(3, 6, 7)},
    "memory_mask has dtype float32, but masks are boolean": {"memory_mask": ones(2, 6)},
    "inputs_mask has dtype float32": {"inputs_mask": ones(2, 3)},
    r"memory_mask has shape \(2, 3\), but \(2, 6\) is": {"memory_mask": ones(2, 3) > 0},
    "1 attentions but 2 memory masks": {"memory_mask": [ones(2, 6) > 0] * 2},
    "1 attentions but 2 memories": {"memory": [ones(2, 6, 7)] * 2},
    "this decoder has an attention, so it needs memory": {"memory": None},
    "initial_state must be a list of .*, got .*; pass the tensors in a list": {
        "initial_state": ones(2, 6)
    },
    r"initial_state must .* widths \[6\], got \[9\]": {"initial_state": [ones(2, 9)]},
    rf"{STATE} \(3, 6\)": {"initial_state": [ones(3, 6)]},
    rf"{STATE} \(2, 1, 6\)": {"initial_state": [ones(2, 1, 6)]},
}


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("match", WRONG)
def test_mismatched_shapes_are_rejected(match: str, built: bool) -> None:
    decoder = RecurrentDecoder(AttentionCell(keras.layers.GRUCell(6), AdditiveAttention(4)))
    if built:
        decoder(**GIVEN)
    with pytest.raises(ValueError, match=match):
        decoder(**(GIVEN | WRONG[match]))


def test_widths_other_than_built_are_rejected() -> None:
    cell = AttentionCell(keras.layers.GRUCell(6), AdditiveAttention(4))
    decoder = RecurrentDecoder(cell, bridge=True)
    bridge = "with bridge, initial_state must be one tensor"
    with pytest.raises(ValueError, match=bridge):
        decoder(**GIVEN)
    decoder(**GIVEN, initial_state=ones(2, 8))
    for match, wrong in {
        r"inputs must be \(batch, steps, 5\), got shape": {"inputs": ones(2, 3, 4)},
        r"memory must be \(2, positions, 7\), got shape": {"memory": ones(2, 6, 4)},
        r"initial_state must be \(2, 8\), got shape \(2, 9\)": {"initial_state": ones(2, 9)},
        f"(?#none){bridge}": {"initial_state": None},
        bridge: {"initial_state": [ones(2, 8)]},
    }.items():
        with pytest.raises(ValueError, match=match):
            decoder(**(GIVEN | {"initial_state": ones(2, 8)} | wrong))
