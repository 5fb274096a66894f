"""Blockwise computation in layers: the same results with less memory."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import Attention, MultiHeadAttention, SelfAttention
from attention_zoo.layers.attention import blockwise, steps
from attention_zoo.ops import implicit_mask
from tests.layers.running import JAX, MODES, array, close, differentiable, randomise, same

B, L, D = 2, 19, 8
MASK = np.random.default_rng(1).random((B, L)) > 0.3
ATTENTION_MASK = np.random.default_rng(2).random((B, L, L)) > 0.3
ATTENTION_MASK[0, 4] = False
CALLS: list[dict[str, Any]] = [
    {},
    {"use_causal_mask": True},
    {"query_mask": MASK, "value_mask": np.array([[True] * L, [False] * L])},
    {"attention_mask": ATTENTION_MASK, "value_mask": MASK},
    {"attention_mask": ATTENTION_MASK[:1, :1]},
]


def sequence() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(B, L, D)).astype("float32")


def heads(**options: Any) -> MultiHeadAttention:
    layer = MultiHeadAttention(4, 6, num_key_value_heads=2, **options)
    layer.build((B, L, D), (B, L, D))
    randomise(layer)
    return layer


@pytest.fixture
def blockwise_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Use blocks of 8 for every call; return a list that grows with each blockwise call."""
    result: list[int] = []
    real = blockwise.zoo_ops.blockwise_attention

    def counted(*given: Any, **options: Any) -> Any:
        result.append(1)
        return real(*given, **options, block=8)

    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 1)
    monkeypatch.setattr(blockwise.zoo_ops, "blockwise_attention", counted)
    return result


def check(
    layer: Any, calls: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *inputs: np.ndarray
) -> None:
    """Compare blockwise outputs and gradients with those of one block."""
    results = []
    for length in (1, 10**9):
        monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", length)
        run = differentiable(layer, lambda *x: layer(*x, **calls), MODES[1])
        results.append(keras.tree.flatten(run(*(inputs or (sequence(), sequence())))))
    got, want = results
    scale = max(np.abs(x).max() for x in want)
    for a, b in zip(got, want, strict=True):
        assert np.abs(a - b).max() <= 1e-5 * scale
    assert not (got[0] != 0)[want[0] == 0].any()


@pytest.mark.parametrize(
    ("positions", "case"), [(None, 0), ("rotary", 1), ("alibi", 2), ("t5", 3), (None, 4)]
)
def test_heads(
    positions: Any, case: int, blockwise_calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(heads(positions=positions), CALLS[case], monkeypatch)
    assert blockwise_calls


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_one_head(score: str, blockwise_calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Attention(score)
    check(layer, CALLS[3], monkeypatch)
    assert blockwise_calls
    x = ops.convert_to_tensor(sequence())
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 1)
    output = SelfAttention(score=score)(x, mask=MASK)
    assert len(blockwise_calls) > 1
    same(implicit_mask(output), MASK)
    assert not array(output)[~MASK].any()


def test_returning_weights_does_not_change_outputs(blockwise_calls: list[int]) -> None:
    for layer in (heads(dropout=0.4, seed=5), Attention(dropout=0.4, seed=5)):
        contexts = []
        for scores in (False, True):
            layer.seed_generator.state.assign(np.array([5, 0], "uint32"))
            out = layer(sequence(), sequence(), return_attention_scores=scores, training=True)
            contexts.append(array(out[0] if scores else out))
            assert len(blockwise_calls) == 1
        close(*contexts, 1e-5)
        assert np.abs(contexts[0] - array(layer(sequence(), sequence()))).max() > 1e-2
        blockwise_calls.clear()


def test_batch_of_one_broadcasts(
    blockwise_calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = heads()
    x, calls = sequence(), {"value_mask": MASK[:1]}
    cases = [(x[:1], x, {}), (x, x[:1], calls)]
    got = [array(layer(query, value, **masks)) for query, value, masks in cases]
    assert len(blockwise_calls) == 2
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 10**9)
    for a, (query, value, masks) in zip(got, cases, strict=True):
        close(a, layer(query, value, **masks), 1e-5)


def test_dropout_differs_between_calls(blockwise_calls: list[int]) -> None:
    layer = heads(dropout=0.4, seed=5)
    first, second = (array(layer(sequence(), sequence(), training=True)) for _ in range(2))
    assert len(blockwise_calls) == 2
    assert np.abs(first - second).max() > 1e-2


class SquaredAttention(Attention):
    """An attention layer with its own score."""

    def compute_scores(self, query: Any, keys: Any, state: Any) -> Any:
        return super().compute_scores(query, keys, state) ** 2


def test_other_scores_are_not_computed_blockwise(blockwise_calls: list[int]) -> None:
    for layer in (
        Attention("cosine"),
        Attention(alignment="sparsemax"),
        SquaredAttention(),
        heads(positions="shaw"),
        MultiHeadAttention(2, 4, score="additive"),
    ):
        layer(sequence(), sequence())
        assert not blockwise_calls, layer


def test_short_sequences_are_not_computed_blockwise(
    blockwise_calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", L * L + 1)
    layer = heads()
    layer(sequence(), sequence())
    assert not blockwise_calls
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", L * L)
    layer(sequence(), sequence())
    assert blockwise_calls


@pytest.mark.parametrize("policy", ["mixed_float16", "bfloat16"])
def test_half_precision(policy: str, blockwise_calls: list[int]) -> None:
    keras.config.set_dtype_policy(policy)
    layer = heads()
    output = layer(sequence(), sequence(), value_mask=MASK)
    assert blockwise_calls
    assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
    want, _ = layer(sequence(), sequence(), value_mask=MASK, return_attention_scores=True)
    close(output, want, 2e-2)


@pytest.mark.full
@pytest.mark.skipif(JAX, reason="shapes are always known there")
def test_model_of_static_length_learns(blockwise_calls: list[int]) -> None:
    inputs = keras.Input((L, D))
    model = keras.Model(inputs, keras.layers.Dense(1)(MultiHeadAttention(2, 4)(inputs, inputs)))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x, y = sequence(), sequence()[..., :1]
    losses = model.fit(x, y, epochs=5, shuffle=False, verbose=0).history["loss"]
    assert blockwise_calls
    assert losses[-1] < losses[0]
