from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import (
    ALIGNMENTS,
    EXCLUDED_PAIRS,
    SCORES,
    Alignment,
    Attention,
    AttentionCell,
    LocalMonotonicAlignment,
    LocalPredictiveAlignment,
    LocationScore,
    MochaAlignment,
    MonotonicAlignment,
    MultiHeadAttention,
    RecurrentDecoder,
)
from tests.layers.attention_case import QUERY_MASK, VALUE_MASK, B, S, T, Weights
from tests.layers.conformance import AttentionConformance, NumericConformance
from tests.layers.running import (
    JAX,
    MODES,
    array,
    arrays,
    build_random,
    close,
    compiled,
    differentiable,
    label,
    needs_dynamic_shapes,
    normal,
    pairwise,
    randomise,
    same,
    with_dynamic_shapes,
)
from tests.tiers import FULL


class MultiHeadCase(NumericConformance):
    """Several heads: the oracle computes each head separately."""

    covers = MultiHeadAttention
    heads, groups = 2, 2
    biased = True

    @property
    def output_width(self) -> int:
        return self.widths[0]

    def one_head(self, outputs: Any) -> Any:
        if not isinstance(outputs, tuple):
            return outputs
        context, weights = outputs
        return context, ops.mean(weights, axis=1)

    def head_scores(
        self, weights: Weights, query: np.ndarray, key: np.ndarray, head: int
    ) -> np.ndarray:
        """Return scores of one head from its queries `(B, T, K)` and keys `(B, S, K)`."""
        return query @ key.swapaxes(1, 2) / np.sqrt(query.shape[-1])

    def head_context(
        self, weights: Weights, attention_weights: np.ndarray, value: np.ndarray
    ) -> np.ndarray:
        return attention_weights @ value

    def oracle(
        self, weights: Weights, tensors: tuple[np.ndarray, ...], mask: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        query, value, key = (x.astype("float64") for x in tensors)

        def projected(x: np.ndarray, name: str, head: int) -> np.ndarray:
            bias = weights[f"{name}_bias"][head] if self.biased else 0
            return x @ weights[f"{name}_projection"][:, head] + bias

        output, all_looked = np.zeros(query.shape), []
        for head in range(self.heads):
            group = head * self.groups // self.heads
            scores = self.head_scores(
                weights, projected(query, "query", head), projected(key, "key", group), head
            )
            attention_weights = self.align(scores, mask)
            context = self.head_context(
                weights, attention_weights, projected(value, "value", group)
            )
            output = output + context @ weights["output_projection"][head]
            all_looked.append(attention_weights)
        if self.biased:
            output = output + weights["output_bias"]
        return np.where(mask.any(-1)[..., None], output, 0), np.stack(all_looked, 1)

    @pytest.mark.parametrize(("policy", "tolerance"), [("float16", 2e-3), ("bfloat16", 12e-3)])
    def test_half_precision_over_a_long_memory(self, policy: str, tolerance: float) -> None:
        """Twice the usual tolerance: queries, keys, values, contexts, outputs are rounded (Keras's
        layer has the same error), and the mean of 8192 random values nearly cancels.
        """
        super().test_half_precision_over_a_long_memory(policy, tolerance)


class TestMultiHeadAttention(MultiHeadCase, AttentionConformance):
    options = {"num_heads": 2, "key_dim": 4}
    changed = {
        "num_heads": 4,
        "key_dim": 3,
        "value_dim": 5,
        "dropout": 0.3,
        "use_bias": False,
        "num_key_value_heads": 1,
        "score": "additive",
        "alignment": "hard",
        "positions": "rotary",
        "seed": 5,
    }

    def test_key_defaults_to_value(self) -> None:
        """The value projection has a fixed width, so both calls use narrow values here."""
        query, value, _ = self.tensors()
        narrow = value[..., : self.widths[1]]
        layer = build_random(self.make(), query, narrow)
        same(layer(query, narrow), layer(query, narrow, narrow))


class TestGroupedHeads(MultiHeadCase):
    """Four query heads on two key-value heads, with `value_dim` and without biases."""

    options = {
        "num_heads": 4,
        "key_dim": 3,
        "value_dim": 5,
        "use_bias": False,
        "num_key_value_heads": 2,
    }
    heads, groups, biased = 4, 2, False


class TestAdditiveHeads(MultiHeadCase):
    """Another score and alignment, whose weights all heads share."""

    options = {"num_heads": 2, "key_dim": 4, "score": "additive", "alignment": "sigmoid"}
    sums_to_one = False

    def head_scores(
        self, weights: Weights, query: np.ndarray, key: np.ndarray, head: int
    ) -> np.ndarray:
        query, key = query @ weights["query_kernel"], key @ weights["key_kernel"]
        return np.tanh(query[:, :, None] + key[:, None]) @ weights["v"]

    def oracle(
        self, weights: Weights, tensors: tuple[np.ndarray, ...], mask: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        self.bias = weights["score_bias"]
        return super().oracle(weights, tensors, mask)

    def align(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return np.where(mask, 1 / (1 + np.exp(-scores - self.bias)), 0)


def pair() -> tuple[np.ndarray, np.ndarray]:
    """Queries and values."""
    rng = np.random.default_rng(0)
    query = rng.normal(size=(B, T, 6)).astype("float32")
    return query, rng.normal(size=(B, S, 7)).astype("float32")


def test_worked_by_hand() -> None:
    """Two heads of width 1, each with one feature of the query and of the key.

    Head 1 scores 0 and ln 3, so it weighs 1/4 and 3/4 of the values 4 and 8: 7.
    Head 2 scores ln 2 and 0, so it weighs 2/3 and 1/3 of the values 9 and 3: 7.
    The output is [7 + 7, 7 - 7] + [1, 2].
    """
    layer = MultiHeadAttention(num_heads=2, key_dim=1)
    query = np.array([[[1.0, 2.0]]], "float32")
    key = np.array([[[0.0, np.log(2) / 2], [np.log(3), 0.0]]], "float32")
    value = np.array([[[4.0, 9.0], [8.0, 3.0]]], "float32")
    layer(query, value, key)
    each = np.eye(2)[..., None]
    output = np.array([[[1.0, 1.0]], [[1.0, -1.0]]])
    none = np.zeros((2, 1))
    layer.set_weights([each, none, each, none, each, none, output, np.array([1.0, 2.0])])
    context, weights = layer(query, value, key, return_attention_scores=True)
    np.testing.assert_allclose(array(weights)[0, :, 0], [[1 / 4, 3 / 4], [2 / 3, 1 / 3]], rtol=1e-6)
    np.testing.assert_allclose(array(context)[0, 0], [15, 2], rtol=1e-6)


def both(**options: Any) -> tuple[Any, Any, tuple[np.ndarray, ...]]:
    """Return our layer and the Keras layer with the same weights, and the tensors of a call."""
    query, value, key = normal((B, T, 6), (B, S, 7), (B, S, 5))
    theirs = keras.layers.MultiHeadAttention(4, 3, **options)
    ours = MultiHeadAttention(4, 3, **options)
    for layer in (theirs, ours):
        layer(query, value, key, return_attention_scores=True)
    randomise(theirs)
    ours.set_weights(theirs.get_weights())
    return ours, theirs, (query, value, key)


@pytest.mark.parametrize("options", [{}, {"value_dim": 5}, {"use_bias": False}], ids=str)
def test_equals_keras_on_the_same_weights(options: dict[str, Any]) -> None:
    ours, theirs, tensors = both(**options)
    mask = np.ones((B, T, S), "bool")
    mask[:, 1:, 2:4] = False
    for masks in ({}, {"use_causal_mask": True}, {"attention_mask": mask}):
        got, expected = (x(*tensors, return_attention_scores=True, **masks) for x in (ours, theirs))
        close(got, expected, 1e-5)


def test_fully_masked_rows_are_zero_unlike_in_keras() -> None:
    ours, theirs, tensors = both()
    mask = np.ones((B, T, S), "bool")
    mask[1] = False
    with_value, unseen = (
        array(theirs(*tensors, attention_mask=mask, return_attention_scores=True)[0]),
        array(theirs(*tensors, attention_mask=mask)),
    )
    assert np.abs(with_value[1] - unseen[1]).max() > 0.1
    assert np.abs(with_value[1]).max() > 0.1, "Keras gives its bias"
    for scores in (False, True):
        got = ours(*tensors, attention_mask=mask, return_attention_scores=scores)
        got = array(got[0] if scores else got)
        assert not got[1].any()
        close(got[[0, 2]], with_value[[0, 2]], 1e-5)


def test_grouped_keys_equal_those_of_keras() -> None:
    query, value = pair()
    theirs = keras.layers.GroupQueryAttention(3, 4, 2)
    ours = MultiHeadAttention(4, 3, num_key_value_heads=2)
    for layer in (theirs, ours):
        layer(query, value)
    randomise(theirs)
    dense = {layer.name: layer for layer in theirs._flatten_layers() if layer is not theirs}
    inputs = [w for name in ("query", "key", "value") for w in dense[name].get_weights()]
    ours.set_weights(inputs + dense["attention_output"].get_weights())
    close(ours(query, value), theirs(query, value), 1e-5)


def test_initial_kernels_are_within_glorot_bounds() -> None:
    """The Glorot bound is that of a D to H K matrix for any H, not of a 3D kernel."""
    for heads in (1, 16):
        layer = MultiHeadAttention(heads, 64 // heads, use_bias=False)
        layer(*[np.zeros((1, 1, 64), "float32")] * 2)
        for kernel in layer.weights:
            top = np.abs(array(kernel)).max()
            assert 0.95 * np.sqrt(6 / 128) < top <= np.sqrt(6 / 128)


@pytest.mark.parametrize("mode", MODES)
def test_no_sources_without_any_mask_give_no_bias(mode: str) -> None:
    layer = MultiHeadAttention(2, 3)
    query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
    build_random(layer, query, value)
    outputs = array(compiled(layer, mode)(query, value[:, :0]))
    assert outputs.shape == (2, 3, 4)
    assert not outputs.any()


@needs_dynamic_shapes
def test_no_sources_of_unknown_number_give_no_bias() -> None:
    layer = MultiHeadAttention(2, 3)
    query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
    build_random(layer, query, value)
    run = with_dynamic_shapes(layer, (None, None, 4), (None, None, 4))
    assert not array(run(query, value[:, :0])).any()
    close(run(query, value), layer(query, value), 1e-6)


@needs_dynamic_shapes
def test_batch_of_one_broadcasts_if_the_size_is_dynamic() -> None:
    layer = MultiHeadAttention(2, 4)
    query, value = normal((1, 3, 8), (4, 5, 8))
    expected = array(layer(query, value))
    assert expected.shape == (4, 3, 8)
    close(
        with_dynamic_shapes(layer, (None, None, 8), (None, None, 8))(query, value), expected, 1e-6
    )


def test_step_of_one_query_attends_to_a_batch_of_memories() -> None:
    layer = MultiHeadAttention(2, 4)
    query, value = normal((1, 3, 8), (4, 5, 8))
    expected = array(layer(query, value))
    memory = layer.prepare(ops.convert_to_tensor(value))
    context, _, _ = layer.attend(ops.convert_to_tensor(query), memory)
    close(context, expected, 1e-6)


def test_masked_positions_give_projections_no_gradient() -> None:
    layer = MultiHeadAttention(2, 3)
    query, value = np.ones((B, T, 4), "float32"), np.ones((B, S, 4), "float32")
    build_random(layer, query, value)
    mask = np.zeros((B, S), "bool")
    run = differentiable(layer, lambda q, v: layer(q, v, value_mask=mask))
    outputs, grads, weight_grads = run(query, np.full_like(value, np.nan))
    assert not outputs.any()
    assert not any(x.any() for x in [*grads, *weight_grads])


PAIRS = [
    case
    for case in pairwise(
        {
            "score": tuple(SCORES.names()),
            "alignment": tuple(ALIGNMENTS.names()),
            "groups": (1, 2, 4),
            "training": (False, True),
        }
    )
    if (case["score"], case["alignment"]) not in EXCLUDED_PAIRS
]


@pytest.mark.parametrize("case", PAIRS[:: 7 if JAX else 1], ids=label)
def test_heads_of_any_score_and_alignment(case: dict[str, Any]) -> None:
    """Compiled, with masked memory: shapes, sums of weights, fully masked rows."""
    score = LocationScore(max_length=S) if case["score"] == "location" else case["score"]
    layer = MultiHeadAttention(
        4, 3, num_key_value_heads=case["groups"], score=score, alignment=case["alignment"]
    )
    query, value = pair()
    mask = VALUE_MASK.copy()
    mask[2] = False
    build_random(layer, query, value)
    calls = {"query_mask": QUERY_MASK, "value_mask": mask, "return_attention_scores": True}
    run = compiled(lambda q, v: layer(q, v, training=case["training"], **calls), MODES[1])
    context, weights = arrays(run(query, value))
    assert context.shape == (B, T, 6)
    assert weights.shape == (B, 4, T, S)
    assert np.isfinite(context).all()
    allowed = (QUERY_MASK[:, :, None] & mask[:, None])[:, None] & np.ones((B, 4, T, S), "bool")
    assert not weights[~allowed].any()
    assert (weights >= 0).all()
    assert not context[~QUERY_MASK].any()
    assert not context[2].any()


@pytest.mark.parametrize("alignment", ["monotonic", "local_monotonic", "local_predictive"])
@pytest.mark.parametrize("groups", [4, 2])
def test_heads_step_by_step(alignment: str, groups: int) -> None:
    layer = MultiHeadAttention(4, 3, num_key_value_heads=groups, alignment=alignment)
    query, value = pair()
    build_random(layer, query, value)
    context, weights = layer(query, value, value_mask=VALUE_MASK, return_attention_scores=True)
    memory = layer.prepare(value, value_mask=VALUE_MASK)
    state = layer.initial_state(memory)
    for t in range(T):
        one, row, state = layer.attend(query[:, t], memory, state)
        close(one, array(context)[:, t], 1e-5)
        close(row, array(weights)[:, :, t], 1e-5)


@pytest.mark.parametrize(
    "alignment",
    [
        MonotonicAlignment(hard_at_inference=False),
        MochaAlignment(hard_at_inference=False),
        LocalPredictiveAlignment(),
        LocalMonotonicAlignment(),
    ],
    ids=lambda alignment: type(alignment).__name__,
)
def test_heads_have_separate_states_and_windows(alignment: Alignment) -> None:
    """Each head is the attention of its own projections."""
    config = alignment.get_config()
    layers, *single = (type(alignment).from_config(config) for _ in range(3))
    length = 30 if FULL else 7
    states, mask = normal((2, length, 6))[0], np.arange(length) < [[length], [length - 4]]
    layer = build_random(MultiHeadAttention(2, 3, score="dot", alignment=layers), states, states)
    _, weights = layer(states, states, value_mask=mask, return_attention_scores=True)
    memory = layer.prepare(states, value_mask=mask)
    queries = layer.project_query(ops.convert_to_tensor(states))
    for head in range(2):
        one = Attention("dot", single[head])
        inputs = (queries[:, head], memory.values[:, head], memory.keys[:, head])
        one(*inputs)
        one.alignment.set_weights(layers.get_weights())
        _, expected = one(*inputs, value_mask=mask, return_attention_scores=True)
        close(array(weights)[:, head], expected, 1e-6)


def test_grouped_heads_equal_heads_with_repeated_keys() -> None:
    """Also for alignments that use keys, sampled alignments, and stateful scores."""
    query, value = pair()
    for score, alignment in (
        ("coverage", "softmax"),
        ("additive", "monotonic"),
        ("scaled_dot", "local_predictive"),
        ("scaled_dot", "gumbel"),
    ):
        layers = [
            MultiHeadAttention(
                4, 3, dropout=0.4, seed=7, num_key_value_heads=groups, score=score,
                alignment=alignment,
            )
            for groups in (2, 4)
        ]  # fmt: skip
        grouped, plain = layers
        for layer in layers:
            layer(query, value)
        randomise(grouped)
        for weight, source in zip(plain.weights, grouped.weights, strict=False):
            x = array(source)
            if weight.shape != source.shape:
                x = np.repeat(x, 2, axis=x.ndim - 2)
            weight.assign(x)
        calls = {"value_mask": VALUE_MASK, "return_attention_scores": True}
        got = arrays(grouped(query, value, **calls))
        expected = arrays(plain(query, value, **calls))
        close(got[0], expected[0], 1e-5)
        close(got[1], expected[1], 1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"score": "additive", "alignment": "local_predictive"},
        {"alignment": "mocha"},
        {"positions": "t5"},
        {"positions": "shaw"},
    ],
    ids=str,
)
def test_heads_load_from_a_file(options: dict[str, Any], tmp_path: Path) -> None:
    query, value = keras.Input((T, 6)), keras.Input((S, 7))
    layer = MultiHeadAttention(4, 3, num_key_value_heads=2, **options)
    model = keras.Model([query, value], layer(query, value))
    randomise(model)
    model.save(tmp_path / "heads.keras")
    repeated = keras.models.load_model(tmp_path / "heads.keras")
    same(repeated(list(pair())), model(list(pair())))


@pytest.mark.parametrize("input_feeding", [True, False])
@pytest.mark.parametrize("groups", [2, 1])
def test_heads_in_a_recurrent_decoder(input_feeding: bool, groups: int) -> None:
    """Step by step, and all attention after the loop; the state has one row per head."""
    attention = MultiHeadAttention(2, 3, num_key_value_heads=groups, dropout=0.1, seed=3)
    cell = AttentionCell(
        keras.layers.GRUCell(6), attention, input_feeding=input_feeding, attention_layer_size=4
    )
    decoder = RecurrentDecoder(cell, alignment_history=True)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(B, T, 5)).astype("float32")
    memory = rng.normal(size=(B, S, 7)).astype("float32")
    build_random(decoder, inputs, memory)
    run = compiled(lambda x, m: decoder(x, m, memory_mask=VALUE_MASK), MODES[1])
    outputs, (history,) = run(inputs, memory)
    assert tuple(outputs.shape) == (B, T, 4)
    assert tuple(history.shape) == (B, T, 2, S)
    assert not array(history).swapaxes(2, 3)[~np.repeat(VALUE_MASK[:, None], T, 1)].any()
    np.testing.assert_allclose(array(history).sum(-1), 1, atol=1e-6)
    spec = decoder.compute_output_spec(keras.KerasTensor((B, T, 5)), keras.KerasTensor((B, S, 7)))
    assert tuple(spec[1][0].shape) == (B, T, 2, S)
    trained, _ = decoder(inputs, memory, memory_mask=VALUE_MASK, training=True)
    assert np.isfinite(array(trained)).all()
    prepared, state = decoder.start(memory, None, VALUE_MASK, B)
    for t in range(T):
        record, state = decoder.step(inputs[:, t], state, prepared)
        close(record.output, array(outputs)[:, t], 1e-5)
        close(record.weights[0], array(history)[:, t], 1e-5)


def test_attention_mask_per_head() -> None:
    """A head's weights equal those of a call that applies its mask to all heads."""
    layer = MultiHeadAttention(2, 4)
    x = np.random.default_rng(0).normal(size=(3, 5, 6)).astype("float32")
    mask = np.random.default_rng(1).random((3, 2, 5, 5)) > 0.4
    _, weights = layer(x, x, attention_mask=mask, return_attention_scores=True)
    for head in range(2):
        _, expected = layer(x, x, attention_mask=mask[:, head], return_attention_scores=True)
        close(weights[:, head], expected[:, head], 1e-6)
