"""Blockwise computation in layers: the same results with less memory."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import Attention, MultiHeadAttention, SelfAttention
from attention_zoo.layers.attention import blockwise, steps
from attention_zoo.layers.attention.expected_lengths import expect_long_sequences
from attention_zoo.ops import implicit_mask
from tests.layers.running import (
    JAX,
    MODES,
    array,
    close,
    differentiable,
    needs_dynamic_shapes,
    randomise,
    same,
    with_dynamic_shapes,
)

B, L, D = 2, 19, 8
MASK = np.random.default_rng(1).random((B, L)) > 0.3
ATTENTION_MASK = np.random.default_rng(2).random((B, L, L)) > 0.3
ATTENTION_MASK[0, 4] = False
ATTENTION_BIAS = np.random.default_rng(4).normal(size=(B, 4, L, L)).astype("float32")
ATTENTION_BIAS[0, :, 4] = -np.inf
MASKS: list[dict[str, Any]] = [
    {},
    {"use_causal_mask": True},
    {"query_mask": MASK, "value_mask": np.array([[True] * L, [False] * L])},
    {"attention_mask": ATTENTION_MASK, "value_mask": MASK},
    {"attention_mask": ATTENTION_MASK[:1, :1]},
    {"attention_mask": np.random.default_rng(3).random((1, 4, L, L)) > 0.3},
    {"attention_mask": ATTENTION_MASK[1]},
    {"attention_bias": ATTENTION_BIAS, "attention_mask": ATTENTION_MASK},
    {"attention_bias": ATTENTION_BIAS[1, 0], "use_causal_mask": True},
]

POSITIONS = [None, "rotary", "alibi", "t5", None, None, None, "t5", None]  # of each case of MASKS
FULL = pytest.mark.full


def make_input() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(B, L, D)).astype("float32")


def make_multi_head(**options: Any) -> MultiHeadAttention:
    layer = MultiHeadAttention(4, 6, num_key_value_heads=2, **options)
    layer.build((B, L, D), (B, L, D))
    randomise(layer)
    return layer


@pytest.fixture
def blockwise_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Compute every call blockwise with blocks of 8; return a list with one entry per call."""
    result: list[int] = []
    real = blockwise.zoo_ops.blockwise_attention

    def counted(*arguments: Any, **options: Any) -> Any:
        result.append(1)
        return real(*arguments, **options, block=8)

    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 1)
    monkeypatch.setattr(blockwise.zoo_ops, "blockwise_attention", counted)
    return result


def check(
    layer: Any, masks: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *inputs: np.ndarray
) -> None:
    """Compare outputs and gradients with and without blockwise computation."""
    results = []
    for min_scores in (1, 10**9):
        monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", min_scores)
        # MODES[1] is a graph (XLA on JAX).
        run = differentiable(layer, lambda *x: layer(*x, **masks), MODES[1])
        results.append(keras.tree.flatten(run(*(inputs or (make_input(), make_input())))))
    compare(*results)


def compare(actual: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Compare outputs and gradients; some gradients are 0 but for rounding errors."""
    scale = max(np.abs(x).max() for x in expected)
    for a, b in zip(actual, expected, strict=True):
        assert np.abs(a - b).max() <= 1e-5 * scale
    assert not (actual[0] != 0)[expected[0] == 0].any()


@pytest.mark.parametrize(
    ("positions", "case"),
    [*zip(POSITIONS, range(9), strict=True)],
)
def test_heads(
    positions: Any, case: int, blockwise_calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(make_multi_head(positions=positions), MASKS[case], monkeypatch)
    assert blockwise_calls


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_one_head(score: str, blockwise_calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Attention(score)
    check(layer, MASKS[3], monkeypatch)
    assert blockwise_calls
    x = ops.convert_to_tensor(make_input())
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 1)
    output = SelfAttention(score=score)(x, mask=MASK)
    assert len(blockwise_calls) > 1
    same(implicit_mask(output), MASK)
    assert not array(output)[~MASK].any()


def test_returning_weights_does_not_change_outputs(blockwise_calls: list[int]) -> None:
    """The blockwise path drops the same weights for the same seed."""
    for layer in (make_multi_head(dropout=0.4, seed=5), Attention(dropout=0.4, seed=5)):
        contexts = []
        for scores in (False, True):
            layer.seed_generator.state.assign(np.array([5, 0], "uint32"))
            out = layer(make_input(), make_input(), return_attention_scores=scores, training=True)
            contexts.append(array(out[0] if scores else out))
            assert len(blockwise_calls) == 1
        close(*contexts, 1e-5)
        assert np.abs(contexts[0] - array(layer(make_input(), make_input()))).max() > 1e-2
        blockwise_calls.clear()


def test_batch_of_one_broadcasts(
    blockwise_calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = make_multi_head()
    x = make_input()
    cases: list[tuple[Any, Any, dict[str, Any]]]
    cases = [(x[:1], x, {}), (x, x[:1], {"value_mask": MASK[:1]})]
    outputs = [array(layer(query, value, **masks)) for query, value, masks in cases]
    assert len(blockwise_calls) == 2
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 10**9)
    for output, (query, value, masks) in zip(outputs, cases, strict=True):
        close(output, layer(query, value, **masks), 1e-5)


def test_dropout_differs_between_calls(blockwise_calls: list[int]) -> None:
    layer = make_multi_head(dropout=0.4, seed=5)
    first, second = (array(layer(make_input(), make_input(), training=True)) for _ in range(2))
    assert len(blockwise_calls) == 2
    assert np.abs(first - second).max() > 1e-2


class SquaredAttention(Attention):
    """An attention layer with its own score."""

    def compute_scores(self, query: Any, keys: Any, state: Any) -> Any:
        return super().compute_scores(query, keys, state) ** 2


def test_other_scores_alignments_and_positions_are_not_blockwise(
    blockwise_calls: list[int],
) -> None:
    for layer in (
        Attention("cosine"),
        Attention(alignment="sparsemax"),
        SquaredAttention(),
        make_multi_head(positions="shaw"),
        MultiHeadAttention(2, 4, score="additive"),
    ):
        layer(make_input(), make_input())
        assert not blockwise_calls, layer


def test_short_sequences_are_not_computed_blockwise(
    blockwise_calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", L * L + 1)
    layer = make_multi_head()
    layer(make_input(), make_input())
    assert not blockwise_calls
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", L * L)
    layer(make_input(), make_input())
    assert blockwise_calls


@pytest.mark.parametrize("policy", ["mixed_float16", "bfloat16"])
def test_half_precision(policy: str, blockwise_calls: list[int]) -> None:
    keras.config.set_dtype_policy(policy)
    layer = make_multi_head()
    output = layer(make_input(), make_input(), value_mask=MASK)
    assert blockwise_calls
    assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
    expected, _ = layer(make_input(), make_input(), value_mask=MASK, return_attention_scores=True)
    close(output, expected, 2e-2)


@pytest.mark.full
@pytest.mark.skipif(JAX, reason="all shapes are static on JAX, so the other tests cover this")
def test_model_of_static_length_learns(blockwise_calls: list[int]) -> None:
    inputs = keras.Input((L, D))
    model = keras.Model(inputs, keras.layers.Dense(1)(MultiHeadAttention(2, 4)(inputs, inputs)))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x, y = make_input(), make_input()[..., :1]
    losses = model.fit(x, y, epochs=5, shuffle=False, verbose=0).history["loss"]
    assert blockwise_calls
    assert losses[-1] < losses[0]


@needs_dynamic_shapes
@pytest.mark.parametrize("mode", ["graph", pytest.param("xla", marks=FULL)])
@pytest.mark.parametrize(
    ("positions", "causal", "lengths"),
    [
        ("t5", False, (40, 75)),  # blocks of 40, the second one padded
        pytest.param("rotary", True, (75, 40), marks=FULL),
        pytest.param("alibi", True, (270, 300), marks=FULL),  # 2 x 2 blocks of 256
        pytest.param(None, False, (1, 5), marks=FULL),
    ],
)
def test_dynamic_lengths(
    positions: Any, causal: bool, lengths: tuple[int, int], mode: str, monkeypatch: Any
) -> None:
    """Training on dynamic lengths is blockwise, with equal results."""
    import tensorflow as tf

    calls = []
    real = blockwise.attend_blockwise
    monkeypatch.setattr(blockwise, "attend_blockwise", lambda *x: calls.append(1) or real(*x))
    layer = make_multi_head(positions=positions)
    rng = np.random.default_rng(0)
    query, value = (rng.normal(size=(B, n, D)).astype("float32") for n in lengths)
    value_mask, pair_mask = (rng.random((B, *x)) > 0.2 for x in (lengths[1:], lengths))
    bias = rng.normal(size=(B, 4, *lengths)).astype("float32")
    inputs = tuple(map(tf.constant, (query, value, value_mask, pair_mask, bias)))

    def run(query: Any, value: Any, value_mask: Any, pair_mask: Any, bias: Any) -> Any:
        with tf.GradientTape() as tape, expect_long_sequences():
            tape.watch((query, value, bias))
            output = layer(
                query,
                value,
                value_mask=value_mask,
                attention_mask=pair_mask,
                attention_bias=bias,
                use_causal_mask=causal,
                training=True,
            )
            loss = ops.sum(output * ops.cos(output))
        weights = [x.value for x in layer.trainable_variables]
        return output, tape.gradient(loss, [query, value, bias, *weights])

    specs = [((None, None, D), "float32")] * 2
    specs += [
        ((None, None), "bool"),
        ((None, None, None), "bool"),
        ((None, 4, None, None), "float32"),
    ]
    results = [with_dynamic_shapes(run, *specs, mode=mode)(*inputs)]
    assert calls
    calls.clear()
    results.append(run(*inputs))
    assert not calls  # static lengths are short
    compare(*([array(x) for x in keras.tree.flatten(nest)] for nest in results))


@needs_dynamic_shapes
@pytest.mark.parametrize("lengths", [(None, 200), (200, None)])
def test_one_dynamic_length(lengths: tuple[Any, Any]) -> None:
    layer = make_multi_head()
    query, value = (np.random.default_rng(0).normal(size=(B, 200, D)) for _ in range(2))

    def run(*inputs: Any) -> Any:
        with expect_long_sequences():
            return layer(*inputs)

    graph = with_dynamic_shapes(run, *((None, n, D) for n in lengths))
    inputs = [x.astype("float32") for x in (query, value)]
    close(graph(*inputs), layer(*inputs), 1e-5)


@needs_dynamic_shapes
def test_dynamic_lengths_are_long_if_expected(blockwise_calls: list[int]) -> None:
    layer = make_multi_head()

    def trace(*specs: Any) -> int:
        before = len(blockwise_calls)
        with_dynamic_shapes(lambda *x: layer(*x), *specs).get_concrete_function()
        return len(blockwise_calls) - before

    dynamic, step = (None, None, D), (None, 1, D)
    assert trace(dynamic, dynamic) == 0
    with expect_long_sequences():
        assert trace(dynamic, dynamic) == 1
        assert trace(step, dynamic) == 0  # a decoding step
        with expect_long_sequences(False):
            assert trace(dynamic, dynamic) == 0
    assert trace(dynamic, dynamic) == 0
