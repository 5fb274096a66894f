"""Layers with converted weights compute the results of TensorFlow Addons."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.layers import (
    AdditiveAttention,
    Attention,
    AttentionCell,
    MonotonicAlignment,
    MultiHeadAttention,
    MultiplicativeAttention,
    RecurrentDecoder,
)
from attention_zoo.migration import set_tfa_weights
from tests.layers.running import array

GOLDEN = Path(__file__).parent / "golden"
ORDER = (
    "attention_v",
    "attention_score_bias",
    "attention_g",
    "attention_b",
    "query_kernel",
    "memory_kernel",
)
LUONG_ORDER = ("attention_g", "attention_score_bias", "memory_kernel")
CELL = ("cell_kernel", "cell_recurrent_kernel", "cell_bias")

MECHANISMS: dict[str, Any] = {
    "bahdanau": partial(AdditiveAttention, 8),
    "bahdanau_normalize": partial(AdditiveAttention, 8, True),
    "bahdanau_hardmax": partial(AdditiveAttention, 8, alignment="hard"),
    "bahdanau_mask": partial(AdditiveAttention, 8),
    "luong": MultiplicativeAttention,
    "luong_scale": partial(MultiplicativeAttention, True),
    "luong_hardmax": partial(MultiplicativeAttention, alignment="hard"),
    "bahdanau_monotonic": partial(AdditiveAttention, 8),
    "bahdanau_monotonic_normalize": partial(AdditiveAttention, 8, True),
    "luong_monotonic": MultiplicativeAttention,
    "luong_monotonic_scale": partial(MultiplicativeAttention, True),
}
WRAPPERS = (
    "wrapper_lstm_luong",
    "wrapper_lstm_bahdanau",
    "wrapper_gru_luong",
    "wrapper_gru_bahdanau",
    "wrapper_lstm_bahdanau_context",
    "wrapper_gru_bahdanau_monotonic",
)


def load_case(case: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "attention.npz") as data:
        return {k.split("/", 1)[1]: data[k] for k in data.files if k.startswith(f"{case}/")}


def assert_close(got: Any, expected: np.ndarray) -> None:
    assert (np.abs(array(got) - expected) <= 1e-5 * np.maximum(1, np.abs(expected))).all()


def memory_mask(case: dict[str, np.ndarray]) -> np.ndarray:
    if "mask" in case:
        return case["mask"]
    return np.arange(case["memory"].shape[1]) < case["lengths"][:, None]


def mechanism_weights(case: dict[str, np.ndarray], luong: bool) -> list[np.ndarray]:
    """Return the weights in the order of the mechanism's `get_weights()`."""
    return [case[name] for name in (LUONG_ORDER if luong else ORDER) if name in case]


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanism_equals_tfa(name: str) -> None:
    case, make = load_case(name), MECHANISMS[name]
    monotonic = "monotonic" in name
    if monotonic:
        make = partial(make, alignment=MonotonicAlignment(hard_at_inference=False))
    layer, mask = make(), memory_mask(case)
    query = case["queries"] if monotonic else case["query"][:, None]
    layer.build(query.shape, case["memory"].shape)
    set_tfa_weights(layer, mechanism_weights(case, "luong" in name))
    _, weights = layer(query, case["memory"], value_mask=mask, return_attention_scores=True)
    expected = case["alignments_recursive"] if monotonic else case["alignments"][:, None]
    is_attended = mask.any(axis=1)  # TFA spreads its weights over a row that has nothing to attend
    assert_close(array(weights)[is_attended], expected[is_attended])


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapper_equals_tfa(name: str) -> None:
    case, luong, lstm = load_case(name), "luong" in name, "lstm" in name
    alignment = MonotonicAlignment(hard_at_inference=False) if "monotonic" in name else "softmax"
    attention = (
        MultiplicativeAttention() if luong else AdditiveAttention(8, True, alignment=alignment)
    )
    size = None if "context" in name else 5
    rnn_cell = keras.layers.LSTMCell(6) if lstm else keras.layers.GRUCell(6)
    cell = AttentionCell(rnn_cell, attention, attention_layer_size=size)
    decoder = RecurrentDecoder(cell, alignment_history=True)
    decoder.build(case["inputs"].shape, case["memory"].shape)
    kernels = [case["attention_layer_kernel"]] if size else []
    cell_weights = [case[key] for key in CELL]
    set_tfa_weights(cell, [*kernels, *cell_weights, *mechanism_weights(case, luong)])
    states = [case[f"initial_{x}"] for x in (["h", "c"] if lstm else ["h"])]
    outputs, (weights,) = decoder(
        case["inputs"], case["memory"], initial_state=states, memory_mask=memory_mask(case)
    )
    assert_close(outputs, case["outputs_attention"])
    assert_close(weights, case["alignment_history"])


def test_two_mechanisms_equal_tfa() -> None:
    """`two_mechanisms.npz`: `AttentionWrapper.get_weights()` and outputs of TFA 0.23 itself."""
    with np.load(GOLDEN / "two_mechanisms.npz") as data:
        case = dict(data)
    attentions = [AdditiveAttention(8, True), MultiplicativeAttention(True)]
    cell = AttentionCell(keras.layers.LSTMCell(6), attentions, attention_layer_size=9)
    decoder = RecurrentDecoder(cell, alignment_history=True)
    memories = [case["memory_0"], case["memory_1"]]
    masks = [
        np.arange(memory.shape[1]) < case[f"lengths_{i}"][:, None]
        for i, memory in enumerate(memories)
    ]
    decoder.build(case["inputs"].shape, [memory.shape for memory in memories])
    set_tfa_weights(cell, [case[key] for key in sorted(case) if key.startswith("weight_")])
    outputs, weights = decoder(case["inputs"], memories, memory_mask=masks)
    assert_close(outputs, case["outputs"])
    for i, attention in enumerate(attentions):
        assert_close(weights[i], case[f"alignments_{i}"])
        mechanism_weights_of_case = [
            case[key] for key in sorted(case) if key.startswith(f"mechanism_{i}_")
        ]
        before = attention.get_weights()
        set_tfa_weights(attention, mechanism_weights_of_case)
        for a, b in zip(attention.get_weights(), before, strict=True):
            np.testing.assert_array_equal(a, b)


def test_unsuitable_layers_or_weights_raise() -> None:
    layer = AdditiveAttention(8)
    with pytest.raises(ValueError, match="has no weights yet"):
        set_tfa_weights(layer, [])
    layer.build((1, 1, 5), (1, 6, 7))
    before = layer.get_weights()
    with pytest.raises(ValueError, match=r"takes 3: attention_v \(8,\), query_layer/kernel"):
        set_tfa_weights(layer, before[:2])
    with pytest.raises(ValueError, match=r"query_layer/kernel must be \(5, 8\), got \(7, 8\)"):
        set_tfa_weights(layer, [np.ones(8), np.ones((7, 8)), np.ones((5, 8))])
    for a, b in zip(layer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(a, b)
    dot = Attention(score="dot")
    dot.build((1, 1, 5), (1, 6, 5))
    with pytest.raises(ValueError, match="no attention with DotScore; use"):
        set_tfa_weights(dot, [])
    dense = keras.layers.Dense(2)
    dense.build((1, 3))
    with pytest.raises(ValueError, match="takes an Attention or an AttentionCell"):
        set_tfa_weights(dense, [])


def test_layers_without_tfa_equivalent_raise() -> None:
    for layer, left in (
        (AdditiveAttention(8, alignment="mocha"), "score_bias"),
        (MultiHeadAttention(2, 5, score="additive"), "query_projection"),
    ):
        layer.build((1, 1, 5), (1, 6, 5))
        before = layer.get_weights()
        with pytest.raises(ValueError, match=f"TensorFlow Addons has no equivalent of .*{left}"):
            set_tfa_weights(layer, before)
        for a, b in zip(layer.get_weights(), before, strict=True):
            np.testing.assert_array_equal(a, b)


def test_weights_in_another_order_raise() -> None:
    cell = AttentionCell(keras.layers.GRUCell(6), AdditiveAttention(8), attention_layer_size=5)
    cell.build((1, 4), [(1, 6, 7)])
    with pytest.raises(ValueError, match=r"attention_layer/kernel must be .*, got \(8,\)"):
        set_tfa_weights(cell, [np.ones(8), *cell.get_weights()])
