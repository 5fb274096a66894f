from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import (
    AdditiveScore,
    Attention,
    AttentionCell,
    DotScore,
    GeneralScore,
    MochaAlignment,
    MonotonicAlignment,
    MonotonicAttention,
    MonotonicChunkwiseAttention,
    RecurrentDecoder,
)
from tests.layers.alignments.test_monotonic_alignments import distribute_in_chunks
from tests.layers.attention_case import Array, Result, Weights
from tests.layers.attention_conformance import (
    FullyMaskedRowConformance,
    PaddingConformance,
    StepConformance,
)
from tests.layers.mask_conformance import MaskConformance
from tests.layers.running import (
    MODES,
    QUICK,
    array,
    build_random,
    close,
    compiled,
    differentiable,
    normal,
)
from tests.layers.stateful_conformance import StatefulCase, StatefulConformance
from tests.layers.wrapper_conformance import WrapperConformance
from tests.tiers import FULL

SOFT = {"hard_at_inference": False, "sigmoid_noise": 0.0}


def normalized(weights: Weights, query: Array, key: Array) -> Array:
    """The energy of Raffel et al., section 2.4, without r: one query `(Dq,)`, keys `(S, Dk)`."""
    v = weights["gain"] * weights["v"] / np.linalg.norm(weights["v"])
    hidden = query @ weights["query_kernel"] + key @ weights["key_kernel"] + weights["bias"]
    return np.tanh(hidden) @ v


def expected_stop(energy: Array, mask: Array, previous: Array) -> Array:
    """Equation 9 of Raffel et al. as a recurrence over probabilities of reaching positions."""
    p = np.where(mask, 1 / (1 + np.exp(-np.clip(energy, -700, 700))), 0)
    weights, coming = np.zeros(len(p)), 0.0
    for j in range(len(p)):
        coming += previous[j]
        weights[j] = p[j] * coming
        coming -= weights[j]
    return weights


class MonotonicCase(StatefulCase):
    sums_to_one = False

    def start(self, sources: int) -> Array:
        return np.eye(1, sources)[0]


class TestMonotonicAttention(MonotonicCase, StatefulConformance, WrapperConformance):
    covers = MonotonicAttention
    options = {"units": 8, **SOFT}
    changed = {
        "score": "general",
        "units": 9,
        "score_bias_init": -4.0,
        "sigmoid_noise": 0.5,
        "form": "recursive",
        "hard_at_inference": True,
        "dropout": 0.3,
        "seed": 5,
    }
    together = {**WrapperConformance.together, "score": {"units": None}}
    same_results = ("form",)  # both forms compute the same recurrence

    def step_oracle(
        self, weights: Weights, query: Array, key: Array, mask: Array, state: Array
    ) -> Result:
        energy = normalized(weights, query, key) + weights["score_bias"]
        attention_weights = expected_stop(energy, mask, state)
        return attention_weights, attention_weights

    def equivalent(self) -> Attention:
        return Attention(AdditiveScore(normalize=True), MonotonicAlignment(-1.0, 1.0))


@pytest.mark.full
class TestMasksOfMonotonicAttention(
    MonotonicCase, MaskConformance, FullyMaskedRowConformance, PaddingConformance, StepConformance
):
    """Masking rules of an alignment whose steps depend on previous ones."""

    covers = MonotonicAttention
    options = TestMonotonicAttention.options


class TestMonotonicChunkwiseAttention(MonotonicCase, StatefulConformance, WrapperConformance):
    covers = MonotonicChunkwiseAttention
    options = {"units": 8, "chunk_size": 3, **SOFT}
    changed = {
        **TestMonotonicAttention.changed,
        "score": GeneralScore,
        "chunk_score": GeneralScore,
        "chunk_size": 4,
    }
    together = {**TestMonotonicAttention.together, "chunk_score": {"units": None}}
    same_results = TestMonotonicAttention.same_results

    def step_oracle(
        self, weights: Weights, query: Array, key: Array, mask: Array, state: Array
    ) -> Result:
        stop = expected_stop(normalized(weights, query, key) + weights["score_bias"], mask, state)
        hidden = query @ weights["query_kernel_2"] + key @ weights["key_kernel_2"]
        return distribute_in_chunks(stop, np.tanh(hidden) @ weights["v_2"], mask, 3), stop

    def equivalent(self) -> Attention:
        alignment = MochaAlignment(2, "additive", None, -1.0, 1.0)
        return Attention(AdditiveScore(normalize=True), alignment)


@pytest.mark.full
class TestMasksOfMonotonicChunkwiseAttention(
    MonotonicCase, MaskConformance, FullyMaskedRowConformance, PaddingConformance, StepConformance
):
    covers = MonotonicChunkwiseAttention
    options = TestMonotonicChunkwiseAttention.options
    step_oracle = TestMonotonicChunkwiseAttention.step_oracle


def reader(energy: Array, mask: Array, query_mask: Array, chunk: tuple[int, Array] | None) -> Array:
    """Algorithm 1 of Raffel et al., and MoChA's chunk: weights `(T, S)`."""
    weights, last = np.zeros(energy.shape), 0
    for t in range(len(energy)):
        for j in range(last if query_mask[t] else len(mask), len(mask)):
            if mask[j] and energy[t, j] > 0:
                last = j
                if chunk is None:
                    weights[t, j] = 1
                else:
                    chunk_positions = [k for k in range(max(0, j - chunk[0] + 1), j + 1) if mask[k]]
                    exp = np.exp(chunk[1][t, chunk_positions] - chunk[1][t, chunk_positions].max())
                    weights[t, chunk_positions] = exp / exp.sum()
                break
    return weights


@pytest.mark.parametrize("mode", sorted({QUICK, MODES[-1]}))
@pytest.mark.parametrize("chunk_size", [None, 1, 3])
def test_inference_equals_a_sequential_reader(chunk_size: int | None, mode: str) -> None:
    """Compare with a Python loop over positions; many attention steps select no position."""
    if chunk_size:
        layer = MonotonicChunkwiseAttention(chunk_size, "general", DotScore(), score_bias_init=-1)
    else:
        layer = MonotonicAttention("general")
    rng = np.random.default_rng(0)
    layer(*(np.ones((3, 6, 2), "float32"),) * 2)
    layer.score.set_weights([np.eye(2)])
    run = compiled(
        lambda q, k, m, n: layer(q, k, value_mask=m, query_mask=n, return_attention_scores=True)[1],
        mode,
    )
    stopped = []
    for _ in range(40 if FULL else 15):
        query, key = (rng.normal(size=(3, 6, 2)).astype("float32") for _ in range(2))
        mask, valid = rng.random((3, 6)) > 0.2, rng.random((3, 6)) > 0.1
        got = array(run(*map(ops.convert_to_tensor, (query, key, mask, valid))))
        scores = query.astype("float64") @ key.astype("float64").swapaxes(1, 2)
        for row in range(3):
            chunk = (chunk_size, scores[row]) if chunk_size else None
            expected = reader(scores[row] - 1, mask[row], valid[row], chunk)
            np.testing.assert_allclose(got[row], expected, atol=1e-6)
            stopped += expected[valid[row]].any(-1).tolist()
    assert 0.2 < np.mean(stopped) < 0.8


def test_step_without_stop_keeps_the_reader_position() -> None:
    """Stops by step: at 1; nowhere; at 1 again; at 2; never back to 0."""
    layer = Attention(score="dot", alignment="monotonic")
    value = np.eye(3, dtype="float32")[None]
    query = np.array([[[-1, 1, -1], [1, -1, -1], [1, 2, 3], [9, -1, 1]]], "float32")
    context, (_, (state,)) = layer(query, value, return_state=True)
    expected = [[0, 1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert array(context)[0].tolist() == expected
    assert array(state)[0].tolist() == [0, 0, 1]
    memory = layer.prepare(value)
    state = layer.initial_state(memory)
    for t in range(4):
        context, weights, state = layer.attend(query[:, t], memory, state)
        assert array(weights)[0].tolist() == array(context)[0].tolist() == expected[t]


def test_training_uses_expectation_and_inference_does_not() -> None:
    query, value = normal((2, 4, 5), (2, 4, 5))
    for layer in (MonotonicAttention(seed=1), MonotonicChunkwiseAttention(seed=1)):
        layer(query, value)
        grads = {}
        for training in (False, True):
            run = differentiable(
                layer,
                lambda q, v, layer=layer, training=training: layer(
                    q, v, return_attention_scores=True, training=training
                ),
            )
            (_, weights), _, by_weights = run(query, value)
            grads[training] = by_weights
            hard = np.isin(weights.sum(-1).round(5), (0, 1)).all()
            assert hard is np.bool_(not training)
        names = [v.path for v in layer.trainable_variables]
        assert [n for n, x in zip(names, grads[True], strict=True) if not x.any()] == []
        stopping = len(layer.score.trainable_variables)
        assert not any(x.any() for x in grads[False][:stopping])


def test_noise_is_sampled_in_every_training_call() -> None:
    query, value = normal((2, 4, 5), (2, 4, 5))
    quiet = MonotonicAttention(seed=1, hard_at_inference=False, sigmoid_noise=0.0)
    noisy, same_seed = (MonotonicAttention(seed=1, hard_at_inference=False) for _ in range(2))
    for layer in (quiet, noisy, same_seed):
        layer(query, value)
        layer.set_weights(quiet.get_weights())
    close(noisy(query, value), quiet(query, value), 1e-6)
    close(quiet(query, value, training=True), quiet(query, value), 1e-6)
    first, second = (array(noisy(query, value, training=True)) for _ in range(2))
    assert np.abs(first - second).max() > 1e-2
    assert np.abs(first - array(quiet(query, value))).max() > 1e-2
    close(same_seed(query, value, training=True), first, 1e-6)


def test_dropout_and_noise_of_one_seed_are_independent() -> None:
    """With a shared generator, dropout would drop exactly the positions of large noise."""
    layer = MonotonicAttention(dropout=0.5, seed=3)
    layer(*(np.ones((1, 1, 2), "float32"),) * 2)
    draws = layer.sample_noise(layer.prepare(np.ones((1, 5000, 2), "float32")), 1, True)
    kept, noise = array(draws.dropout_mask).ravel() > 0, array(draws.alignment).ravel()
    assert abs(np.corrcoef(kept, noise)[0, 1]) < 0.05
    assert abs(np.corrcoef(kept, np.abs(noise))[0, 1]) < 0.05


def grid(p: Array) -> Array:
    """Return all weights, `(T, S)`, in float64, by diagonals of steps and positions."""
    steps, sources = p.shape
    q, weights = np.zeros(p.shape), np.zeros(p.shape)
    for diagonal in range(steps + sources - 1):
        t = np.arange(max(0, diagonal - sources + 1), min(steps, diagonal + 1))
        j = diagonal - t
        passed = np.where(j > 0, (1 - p[t, j - 1]) * q[t, j - 1], 0)
        q[t, j] = passed + np.where(t > 0, weights[t - 1, j], j == 0)
        weights[t, j] = p[t, j] * q[t, j]
    return weights


@pytest.mark.parametrize(
    ("form", "size"),
    [pytest.param("parallel", 2000, marks=pytest.mark.full), ("parallel", 100), ("recursive", 100)],
)
def test_thousands_of_steps_and_positions(form: str, size: int) -> None:
    """Probabilities 0 and 1 in one row, random in the other: correct values, finite gradients."""
    rng = np.random.default_rng(0)
    certain = np.where(rng.random(size) < 0.05, 1e4, -1e4)
    keys = np.stack([certain, rng.normal(size=size) - 3]).astype("float32")[..., None]
    turns = np.cos(np.arange(size))
    queries = np.stack([np.sign(turns), 1 + 0.1 * turns]).astype("float32")[..., None]
    layer = Attention("dot", MonotonicAlignment(form=form, hard_at_inference=False))
    layer(queries[:, :1], keys)

    def attend(queries: Any, keys: Any) -> Any:
        return layer(queries, keys, return_attention_scores=True)

    (context, weights), gradients, (by_bias,) = differentiable(layer, attend, MODES[1])(
        queries, keys
    )
    for row in range(2):
        energy = queries[row].astype("float64") @ keys[row].astype("float64").T
        expected = grid(1 / (1 + np.exp(-np.clip(energy, -700, 700))))
        np.testing.assert_allclose(weights[row], expected, rtol=1e-4, atol=1e-7)
    assert all(np.isfinite(x).all() for x in (context, by_bias, *gradients))
    assert gradients[0][1].any()


@pytest.mark.parametrize("make", [MonotonicAttention, MonotonicChunkwiseAttention])
def test_search_continues_with_copied_words_as_unknown(make: Any) -> None:
    inputs, memory = normal((3, 6, 4), (3, 8, 7))
    mask = np.arange(8) < np.array([[8], [5], [0]])
    cell = AttentionCell(layers.GRUCell(6), make(score_bias_init=0.0), attention_layer_size=8)
    decoder = build_random(RecurrentDecoder(cell, alignment_history=True), inputs, memory)
    outputs, (weights,) = decoder(inputs, memory, memory_mask=mask)
    prepared, state = decoder.start(ops.convert_to_tensor(memory), None, mask, 3)
    for t in range(6):
        record, state = decoder.step(ops.convert_to_tensor(inputs[:, t]), state, prepared)
        close(record.output, array(outputs)[:, t], 1e-5)
        close(record.weights[0], array(weights)[:, t], 1e-5)
    sums = array(weights).sum(-1)
    assert np.isin(sums.round(5), (0, 1)).all()
    assert sums[:2].any()
    assert not sums[2].any()
    ends = [np.flatnonzero(row)[-1] for row in array(weights)[0] if row.any()]
    assert ends == sorted(ends)


def test_normalized_additive_score_follows_the_paper() -> None:
    for make in (MonotonicAttention, MonotonicChunkwiseAttention):
        layer = make(units=4)
        layer(*(np.ones((1, 2, 3), "float32"),) * 2)
        assert layer.score.normalize
        assert float(array(layer.score.gain)) == 0.5
        assert float(array(layer.weights[-1])) == -1, "r starts below 0"
        assert make(AdditiveScore(4)).score.normalize is False if make is MonotonicAttention else 1
    assert MonotonicChunkwiseAttention(units=4).alignment.chunk_score.normalize is False
