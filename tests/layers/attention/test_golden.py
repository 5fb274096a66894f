"""Golden vectors of TensorFlow Addons 0.23 (attention mechanisms and its attention wrapper)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import (
    AdditiveAttention,
    AttentionCell,
    DotProductAttention,
    DotScore,
    MonotonicAlignment,
    MultiplicativeAttention,
    RecurrentDecoder,
)
from tests.layers.running import array

GOLDEN = Path(__file__).parents[2] / "golden"
ADDITIVE = ["query_kernel", "memory_kernel", "attention_v"]
NORMALIZED = [*ADDITIVE, "attention_g", "attention_b"]

MECHANISMS: dict[str, tuple[Any, list[str]]] = {
    "bahdanau": (lambda: AdditiveAttention(8), ADDITIVE),
    "bahdanau_normalize": (lambda: AdditiveAttention(8, normalize=True), NORMALIZED),
    "bahdanau_hardmax": (lambda: AdditiveAttention(8, alignment="hard"), ADDITIVE),
    "bahdanau_mask": (lambda: AdditiveAttention(8), ADDITIVE),
    "luong": (lambda: MultiplicativeAttention(), ["memory_kernel"]),
    "luong_scale": (lambda: MultiplicativeAttention(scale=True), ["memory_kernel", "attention_g"]),
    "luong_hardmax": (lambda: MultiplicativeAttention(alignment="hard"), ["memory_kernel"]),
}
MONOTONIC: dict[str, tuple[Any, list[str]]] = {
    "bahdanau_monotonic": (partial(AdditiveAttention, 8), ADDITIVE),
    "bahdanau_monotonic_normalize": (partial(AdditiveAttention, 8, True), NORMALIZED),
    "luong_monotonic": (MultiplicativeAttention, ["memory_kernel"]),
    "luong_monotonic_scale": (
        partial(MultiplicativeAttention, True),
        ["memory_kernel", "attention_g"],
    ),
}
WRAPPERS = [
    "wrapper_lstm_luong",
    "wrapper_lstm_bahdanau",
    "wrapper_gru_luong",
    "wrapper_gru_bahdanau",
    "wrapper_lstm_bahdanau_context",
    "wrapper_gru_bahdanau_monotonic",
]


def load_golden(case: str, file: str = "attention.npz") -> dict[str, np.ndarray]:
    with np.load(GOLDEN / file) as data:
        return {k.split("/", 1)[1]: data[k] for k in data.files if k.startswith(f"{case}/")}


def assert_equal_to_golden(got: Any, want: np.ndarray) -> None:
    assert (np.abs(array(got) - want) <= 1e-5 * np.maximum(1, np.abs(want))).all()


def memory_mask(case: dict[str, np.ndarray]) -> np.ndarray:
    if "mask" in case:
        return case["mask"]
    return np.arange(case["memory"].shape[1]) < case["lengths"][:, None]


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanism(name: str) -> None:
    make, weights = MECHANISMS[name]
    case, layer = load_golden(name), make()
    query, memory, mask = case["query"], case["memory"], memory_mask(case)
    layer.build((4, 1, query.shape[-1]), memory.shape)
    layer.set_weights([case[key] for key in weights])
    if name == "bahdanau_mask":
        fully_masked = ~mask.any(axis=1)
        assert fully_masked.sum() == 1, (
            "TFA spreads the weights of this row; the law of masks has none"
        )
        case["alignments"][fully_masked], case["context"][fully_masked] = 0, 0
    context, attention_weights = layer(
        query[:, None], memory, value_mask=mask, return_attention_scores=True
    )
    assert_equal_to_golden(context[:, 0], case["context"])
    assert_equal_to_golden(attention_weights[:, 0], case["alignments"])
    context, attention_weights, _ = layer.attend(query, layer.prepare(memory, value_mask=mask))
    assert_equal_to_golden(context, case["context"])
    assert_equal_to_golden(attention_weights, case["alignments"])


def make_monotonic_layer(name: str, **options: Any) -> tuple[dict[str, np.ndarray], Any]:
    """Return the golden case and a layer with its weights."""
    make, weights = MONOTONIC[name]
    case, layer = load_golden(name), make(alignment=MonotonicAlignment(**options))
    layer.build(case["queries"].shape, case["memory"].shape)
    layer.set_weights([*(case[key] for key in weights), case["attention_score_bias"]])
    return case, layer


@pytest.mark.parametrize("form", ["parallel", "recursive"])
@pytest.mark.parametrize("name", MONOTONIC)
def test_monotonic_mechanism(name: str, form: str) -> None:
    """Six queries, each from the previous weights; the first from all weight at position 0."""
    case, layer = make_monotonic_layer(name, form=form, hard_at_inference=False)
    queries, memory, mask = case["queries"], case["memory"], memory_mask(case)
    _, attention_weights = layer(queries, memory, value_mask=mask, return_attention_scores=True)
    assert_equal_to_golden(attention_weights, case[f"alignments_{form}"])
    case, layer = make_monotonic_layer(name, form=form)
    _, attention_weights = layer(
        queries, memory, value_mask=mask, return_attention_scores=True, training=True
    )
    assert_equal_to_golden(attention_weights, case[f"alignments_{form}"])


@pytest.mark.parametrize("name", MONOTONIC)
def test_hard_monotonic_mechanism(name: str) -> None:
    """All six in one call up to the first step without a stop, and each from TFA's state.

    After such a step TFA's weights stay 0; ours continue from the last stop, as in the paper.
    """
    case, layer = make_monotonic_layer(name)
    queries, memory, mask = case["queries"], case["memory"], memory_mask(case)
    _, attention_weights = layer(queries, memory, value_mask=mask, return_attention_scores=True)
    expected = case["alignments_hard"]
    before = np.cumprod(expected.any(axis=-1), axis=1).astype("bool")
    first_empty = np.concatenate([np.ones((4, 1), "bool"), before[:, :-1]], axis=1)
    assert_equal_to_golden(array(attention_weights)[first_empty], expected[first_empty])
    prepared = layer.prepare(memory, value_mask=mask)
    inputs = np.concatenate([case["initial_alignments"][:, None], expected[:, :-1]], axis=1)
    for t in range(6):
        state = ((), (ops.convert_to_tensor(inputs[:, t]),))
        _, row, _ = layer.attend(queries[:, t], prepared, state)
        assert_equal_to_golden(row, expected[:, t])


def test_monotonic_function() -> None:
    """TFA's function of probabilities, from any previous weights."""
    case = load_golden("monotonic_fn", "monotonic.npz")
    logits = np.log(case["p_choose"] / (1 - case["p_choose"]))
    for form in ("parallel", "recursive"):
        layer = MonotonicAlignment(form=form, hard_at_inference=False)
        assert_equal_to_golden(layer(logits, state=(case["previous"],))[0], case[form])
    layer = MonotonicAlignment()
    weights, _ = layer(case["p_choose_hard"] - 0.5, state=(case["previous_hard"],))
    assert_equal_to_golden(weights, case["hard"])


@pytest.mark.parametrize("output_attention", [True, False])
@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapper(name: str, output_attention: bool) -> None:
    case, luong, lstm = load_golden(name), "luong" in name, "lstm" in name
    make_monotonic_layer = "monotonic" in name
    alignment = MonotonicAlignment(hard_at_inference=False) if make_monotonic_layer else "softmax"
    attention = (
        MultiplicativeAttention() if luong else AdditiveAttention(8, True, alignment=alignment)
    )
    weights = [
        *(["memory_kernel"] if luong else NORMALIZED),
        *["attention_score_bias"] * make_monotonic_layer,
    ]
    rnn_cell = layers.LSTMCell(6) if lstm else layers.GRUCell(6)
    size = None if "context" in name else 5
    cell = AttentionCell(
        rnn_cell, attention, attention_layer_size=size, output_attention=output_attention
    )
    decoder = RecurrentDecoder(cell, alignment_history=True, return_state=True)
    decoder.build(case["inputs"].shape, case["memory"].shape)
    rnn_cell.set_weights([case[f"cell_{x}"] for x in ("kernel", "recurrent_kernel", "bias")])
    attention.set_weights([case[key] for key in weights])
    if size:
        cell.attention_kernel.assign(case["attention_layer_kernel"])
    names = ["h", "c"] if lstm else ["h"]
    outputs, (attention_weights,), states = decoder(
        case["inputs"],
        case["memory"],
        initial_state=[case[f"initial_{x}"] for x in names],
        memory_mask=memory_mask(case),
    )
    assert_equal_to_golden(
        outputs, case["outputs_attention" if output_attention else "outputs_cell"]
    )
    assert_equal_to_golden(attention_weights, case["alignment_history"])
    assert_equal_to_golden(attention_weights[:, -1], case["final_alignments"])
    for state, letter in zip(states, names, strict=True):
        assert_equal_to_golden(state, case[f"final_{letter}"])
    if output_attention:
        assert_equal_to_golden(outputs[:, -1], case["final_attention"])


def test_worked_example() -> None:
    case = load_golden("worked_example")
    query, memory = case["query"][:, None], case["memory"]
    scores = array(DotScore()(query, memory))
    assert scores.ravel().tolist() == [15, 60, 15, 35]
    layer = MultiplicativeAttention()
    layer.build(query.shape, memory.shape)
    layer.set_weights([case["memory_kernel"]])
    for attention in (layer, DotProductAttention()):
        context, weights = attention(query, memory, return_attention_scores=True)
        assert_equal_to_golden(context[:, 0], case["context_float64"])
        assert_equal_to_golden(weights[:, 0], case["alignments_float64"])
        np.testing.assert_allclose(array(context).ravel(), [5, 0, 1], atol=1e-6)
