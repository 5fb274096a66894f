from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import (
    Attention,
    AttentionCell,
    GumbelAlignment,
    MultiHeadAttention,
    RecurrentDecoder,
    ReinforceAlignment,
)
from tests.layers.attention_case import hard, softmax
from tests.layers.conformance import AlignmentConformance
from tests.layers.running import (
    MODES,
    WIDE,
    array,
    check_gradients,
    close,
    compiled,
    differentiable,
    normal,
    quick,
    same,
)

SAMPLED = (GumbelAlignment, ReinforceAlignment)
RETURN_ALL = {"return_attention_scores": True, "return_state": True, "training": True}
SCORES = np.array([0.0, 1.0, 50.0, -1.0, 0.5, -3.0], "float32")
MASK = np.array([1, 1, 0, 1, 1, 1], "bool")
"""The position with the highest score is masked."""


class TestGumbelAlignment(AlignmentConformance):
    """The conformance tests run at inference, where it is an argmax."""

    covers = GumbelAlignment
    registered = "gumbel"
    changed = {"temperature": 0.5, "straight_through": False, "seed": 7}
    together = {}

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return hard(scores, mask)


class TestReinforceAlignment(AlignmentConformance):
    covers = ReinforceAlignment
    unused_inputs = (1, 2)  # the state affects only the next state
    registered = "reinforce"
    changed = {"expected_rate": 0.5, "seed": 7}
    together = {}

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return hard(scores, mask)


def sample_weights(align: Any, scores: Any, mask: Any = None, noise: Any = None) -> tuple[Any, Any]:
    """Return weights and state of the first step in training, with new or given noise."""
    scores = ops.convert_to_tensor(scores)
    if noise is None:
        noise = align.sample_noise(ops.shape(scores), "float32")
    state = align.initial_state(scores)
    return align(scores, mask=mask, state=state, noise=noise, training=True)


@pytest.mark.parametrize("name", ["gumbel", "reinforce"])
def test_million_samples_follow_the_distribution(name: str) -> None:
    """The same in an attention with masked memory, one row of it fully masked."""
    layer = Attention("dot", name)
    value = np.random.default_rng(0).normal(size=(10, 6, 4)).astype("float32")
    mask = np.random.default_rng(1).random((10, 6)) > 0.4
    mask[4] = False
    query = np.repeat(value.mean(1, keepdims=True), 100_000, axis=1)
    _, weights = layer(query, value, value_mask=mask, return_attention_scores=True, training=True)
    counts = array(weights).sum(1)
    assert not counts[~mask].any()
    assert counts.sum(-1).tolist() == [100_000 if row.any() else 0 for row in mask]
    scores = np.einsum("bd,bsd->bs", query[:, 0].astype("float64"), value.astype("float64"))
    probabilities = softmax(scores, mask)
    sigma = np.sqrt(100_000 * probabilities * (1 - probabilities))
    assert (np.abs(counts - 100_000 * probabilities) <= 5 * sigma + 1e-6).all()


def test_noise_is_gumbel_and_finite() -> None:
    """Distribution `exp(-exp(-g))` within 5 sigma anywhere; no infinity among 1e7 draws."""
    noise = array(GumbelAlignment(seed=1).sample_noise((10_000_000,), "float32"))
    assert np.isfinite(noise).all()
    for g in (-2, -1, 0, 1, 3, 6, 12):
        share = np.exp(-np.exp(-g))
        sigma = np.sqrt(share * (1 - share) / noise.size)
        assert abs((noise <= g).mean() - share) <= 5 * sigma


@pytest.mark.parametrize("kind", SAMPLED)
def test_seeded_and_repeatable(kind: type) -> None:
    scores = np.zeros((50, 20), "float32")

    def two(seed: int | None) -> list[np.ndarray]:
        align = kind(seed=seed)
        return [array(sample_weights(align, scores)[0]) for _ in range(2)]

    first, second = two(5)
    same(two(5), (first, second))
    for other in (second, two(6)[0], two(None)[0]):
        assert (first != other).any(-1).mean() > 0.8
    assert (two(None)[0] != two(None)[0]).any()


@pytest.mark.parametrize("kind", SAMPLED)
def test_dropout_and_noise_of_one_seed_differ(kind: type) -> None:
    """Equal numbers would correlate dropout with the samples."""
    layer = Attention("dot", kind(seed=3), dropout=0.5, seed=3)
    value = np.zeros((20, 10, 4), "float32")
    draws = layer.sample_noise(layer.prepare(ops.convert_to_tensor(value)), 100, True)
    keep, noise = array(draws.dropout_mask).ravel(), array(draws.alignment).ravel()
    assert abs(np.corrcoef(keep, noise.argsort().argsort())[0, 1]) < 5 / np.sqrt(len(keep))


@pytest.mark.parametrize("kind", SAMPLED)
def test_inference_does_not_sample(kind: type) -> None:
    layer = Attention("dot", kind(), dropout=0.5)
    query, value = normal((3, 5, 4), (3, 7, 4))
    expected, attention_weights = layer(query, value, return_attention_scores=True)
    scores = np.einsum("btd,bsd->bts", query, value)
    same(attention_weights, hard(scores, np.True_))
    for training in (None, False):
        same(layer(query, value, training=training), expected)
    memory = layer.prepare(ops.convert_to_tensor(value))
    assert layer.sample_noise(memory, 5, False) is None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", SAMPLED)
def test_large_scores_and_fully_masked_rows(kind: type, mode: str) -> None:
    align = kind(seed=1)
    scores = np.array([[1e5, -1e5, 1e5], [np.nan, 1, np.inf], [np.inf, np.nan, -np.inf]], "float32")
    mask = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]], "bool")
    noise = align.sample_noise((3, 3), "float32")
    align.build((3, 3))
    run = differentiable(align, lambda x: sample_weights(align, x, mask, noise), mode)
    (weights, state), (gradient,), _ = run(scores)
    assert weights.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert not any(leaf.any() for leaf in state)
    assert np.isfinite(gradient).all()
    assert not gradient[~mask].any()


def uniform_decoder(name: str, feeding: bool, steps: int) -> tuple[np.ndarray, Any]:
    """Return weights `(2, T, 5)` and the last state of a decoder with equal scores.

    The second row has three memory positions and half of its steps masked.
    """
    cell = AttentionCell(
        keras.layers.SimpleRNNCell(4, kernel_initializer="zeros", recurrent_initializer="zeros"),
        Attention("dot", name, seed=2),
        input_feeding=feeding,
    )
    decoder = RecurrentDecoder(cell)
    inputs = ops.ones((2, steps, 3))
    memory = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
    decoder(inputs, memory)
    mask = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 0, 1]], "bool")
    valid = np.stack([np.ones(steps), np.arange(steps) % 2]).astype("bool")

    def run(inputs: Any, memory: Any) -> tuple[Any, Any]:
        prepared, state = decoder.start(memory, None, mask, 2, True)
        record, state = decoder.unroll(inputs, prepared, state, valid, ("weights",), True)
        return record["weights"][0], state

    weights, state = compiled(run, MODES[1])(inputs, memory)
    return array(weights), state


@pytest.mark.full
@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("name", ["gumbel", "reinforce"])
def test_loop_steps_sample_independently(name: str, feeding: bool) -> None:
    """Noise sampled inside of the loop would be the same in every step."""
    weights, _ = uniform_decoder(name, feeding, 500)
    full, masked = weights[0], weights[1, 1::2]
    assert not weights[1, ::2].any()
    assert not masked[:, [1, 3]].any()
    for rows, positions in ((full, 5), (masked[:, [0, 2, 4]], 3)):
        assert (rows.sum(-1) == 1).all()
        chosen = rows.argmax(-1)
        repeated = (chosen[1:] == chosen[:-1]).mean()
        for share in (*rows.mean(0), repeated):
            sigma = np.sqrt((1 - 1 / positions) / positions / len(rows))
            assert share == pytest.approx(1 / positions, abs=5 * sigma)


@pytest.mark.parametrize("feeding", [True, False])
def test_decoder_state_contains_the_sampled_position(feeding: bool) -> None:
    """8 steps over 5 positions, and 4 over 3: masked steps do not sample."""
    _, state = uniform_decoder("reinforce", feeding, 8)
    choice = ReinforceAlignment.choice(state.alignments[0])
    expected = np.array([8 * np.log(5), 4 * np.log(3)])
    close(choice.log_probability, -expected, 1e-6)
    close(choice.entropy, expected, 1e-6)


def test_straight_through_by_hand() -> None:
    """Two positions, noisy scores log 3 apart: one-hot, with the softmax slope p (1 - p) = 3/16."""
    noise = np.log(np.array([[3.0, 1.0]], "float32"))
    for temperature, slope in ((1.0, 3 / 16), (0.5, 0.09)):
        align = GumbelAlignment(temperature)
        align.build((1, 2))
        run = differentiable(align, lambda x, a=align: sample_weights(a, x, None, noise)[0][:, 0])
        weight, (gradient,), _ = run(np.zeros((1, 2), "float32"))
        assert weight == pytest.approx(1)
        slope = slope / temperature * np.cos(1)
        np.testing.assert_allclose(gradient, [[slope, -slope]], rtol=1e-5)
    soft = GumbelAlignment(0.5, straight_through=False)
    weights, _ = sample_weights(soft, np.zeros((1, 2), "float32"), None, noise)
    np.testing.assert_allclose(array(weights), [[0.9, 0.1]], rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_forward_is_hard_and_backward_is_soft(mode: str) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(6, 7)).astype("float32")
    mask = rng.random((6, 7)) > 0.3
    noise = rng.gumbel(size=(6, 7)).astype("float32")
    through, soft = GumbelAlignment(0.7), GumbelAlignment(0.7, straight_through=False)
    gradients = []
    for align in (through, soft):
        align.build((6, 7))
        run = differentiable(align, lambda x, a=align: sample_weights(a, x, mask, noise)[0], mode)
        weights, (gradient,), _ = run(scores)
        gradients.append(gradient)
        noisy = scores.astype("float64") + noise
        expected = hard(noisy, mask) if align is through else softmax(noisy / 0.7, mask)
        np.testing.assert_allclose(weights, expected, atol=2e-7)
    np.testing.assert_allclose(*gradients, rtol=1e-6)
    assert np.abs(gradients[0]).max() > 0.01


def test_soft_gradients_are_finite_differences() -> None:
    rng = np.random.default_rng(1)
    scores, noise = rng.normal(size=(4, 7)).astype(WIDE), rng.gumbel(size=(4, 7)).astype(WIDE)
    align = GumbelAlignment(0.8, straight_through=False, dtype=WIDE)
    align.build((4, 7))
    mask = rng.random((4, 7)) > 0.3
    run = differentiable(align, lambda x: sample_weights(align, x, mask, noise)[0])
    check_gradients(align, run, [scores])


def test_temperature_set_by_a_callback_is_saved(tmp_path: Path) -> None:
    query, value = keras.Input((3, 4)), keras.Input((5, 4))
    layer = Attention("general", GumbelAlignment(2.0), name="attention")
    model = keras.Model([query, value], layer(query, value))
    model.compile("sgd", "mse")
    temperatures = []

    def lower(epoch: int, logs: Any = None) -> None:
        temperatures.append(float(array(layer.alignment.temperature)))
        layer.alignment.temperature.assign(0.5 * temperatures[-1])

    inputs = [np.ones((4, 3, 4), "float32"), np.ones((4, 5, 4), "float32")]
    callback = keras.callbacks.LambdaCallback(on_epoch_begin=lower)
    model.fit(inputs, inputs[0], epochs=3, shuffle=False, verbose=0, callbacks=[callback])
    assert temperatures == [2.0, 1.0, 0.5]
    model.save(tmp_path / "model.keras")
    repeated = keras.models.load_model(tmp_path / "model.keras").get_layer("attention")
    assert float(array(repeated.alignment.temperature)) == 0.25
    assert not any("temperature" in v.path for v in repeated.trainable_variables)


def expected_state(
    scores: np.ndarray, mask: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return the log-probability of the sample and the entropy, `(..., 1)`, in float64."""
    probabilities = softmax(scores, mask)
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities)
    chosen = np.where(weights > 0, logs, 0).sum(-1, keepdims=True)
    return chosen, -np.where(
        probabilities > 0, probabilities * np.where(probabilities > 0, logs, 0), 0
    ).sum(-1, keepdims=True)


def test_choice_by_hand() -> None:
    """Probabilities 1/2, 1/4, 1/4 and the second sampled: log 1/4, and entropy 3/2 log 2."""
    align = ReinforceAlignment()
    scores = np.log(np.array([[2.0, 1.0, 1.0, 9.0]], "float32"))
    mask, noise = np.array([[True, True, True, False]]), np.array([[0, 5, 0, 9.0]], "float32")
    weights, state = sample_weights(align, scores, mask, noise)
    assert array(weights).tolist() == [[0, 1, 0, 0]]
    np.testing.assert_allclose(array(state[0]), [[np.log(1 / 4)]], rtol=1e-6)
    np.testing.assert_allclose(array(state[1]), [[1.5 * np.log(2)]], rtol=1e-6)
    _, (first, second) = align(scores, mask=mask, state=state)
    np.testing.assert_allclose(array(first), [[np.log(1 / 8)]], rtol=1e-6)
    np.testing.assert_allclose(array(second), [[3 * np.log(2)]], rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_state_accumulates_over_all_steps(mode: str) -> None:
    """Sums over unmasked queries; masked queries and fully masked memories add 0."""
    layer = Attention("dot", ReinforceAlignment(seed=4))
    rng = np.random.default_rng(0)
    query, value = (rng.normal(size=(3, n, 4)).astype("float32") for n in (5, 7))
    valid = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [1, 1, 1, 1, 1]], "bool")
    memory = rng.random((3, 7)) > 0.3
    memory[2] = False
    layer(query, value)

    masks = {"query_mask": valid, "value_mask": memory}
    run = compiled(lambda q, v: layer(q, v, **masks, **RETURN_ALL), mode)
    context, weights, (of_score, of_alignment) = run(query, value)
    assert of_score == ()
    scores = np.einsum("btd,bsd->bts", query.astype("float64"), value.astype("float64"))
    mask = valid[:, :, None] & memory[:, None]
    close(context, array(weights) @ value, 1e-6)
    assert (array(weights).sum(-1) == mask.any(-1)).all()
    for got, expected in zip(
        of_alignment, expected_state(scores, mask, array(weights)), strict=True
    ):
        close(got, expected.sum(1), 1e-5)
    choice = layer.alignment.choice(((), of_alignment))
    close(choice.entropy, expected_state(scores, mask, array(weights))[1].sum((1, 2)), 1e-5)
    assert not array(choice.log_probability)[2].any()


def test_single_steps_accumulate_the_same_state() -> None:
    layer = Attention("dot", ReinforceAlignment(seed=4))
    query, value = normal((2, 5, 4), (2, 7, 4))
    memory_mask = np.array([[1, 1, 1, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0]], "bool")
    layer(query, value)
    _, weights, state = layer(query, value, value_mask=memory_mask, **RETURN_ALL)
    repeated = Attention("dot", ReinforceAlignment(seed=4))
    memory = repeated.prepare(ops.convert_to_tensor(value), None, memory_mask)
    draws, running = repeated.sample_noise(memory, 5, True), repeated.initial_state(memory)
    for t in range(5):
        now = keras.tree.map_structure(lambda x, t=t: None if x is None else x[:, t], draws)
        _, row, running = repeated.attend(
            ops.convert_to_tensor(query[:, t]), memory, running, now, True
        )
        same(row, array(weights)[:, t])
    for got, expected in zip(keras.tree.flatten(running), keras.tree.flatten(state), strict=True):
        close(got, expected, 1e-6)
        assert not array(got)[1].any()


def test_stateful_score_accumulates_the_same_sums() -> None:
    rng = np.random.default_rng(0)
    query, value = np.zeros((2, 6, 4), "float32"), rng.normal(size=(2, 5, 4)).astype("float32")
    layer = Attention("coverage", "reinforce", units=3)
    layer(query, value)
    for variable in layer.score.weights:
        variable.assign(np.zeros(tuple(variable.shape)))
    valid = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]], "bool")
    _, state = layer(query, value, query_mask=valid, return_state=True, training=True)
    choice = layer.alignment.choice(state)
    expected = np.array([6, 2]) * np.log(5)
    close(choice.log_probability, -expected, 1e-6)
    close(choice.entropy, expected, 1e-6)


def test_heads_sample_independently() -> None:
    """Six and two steps of two heads over five equal scores; masked queries do not sample."""
    layer = MultiHeadAttention(2, 4, alignment="reinforce")
    value = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
    valid = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]], "bool")
    _, state = layer(
        np.zeros((3, 6, 8), "float32"), value, query_mask=valid, return_state=True, training=True
    )
    assert [tuple(leaf.shape) for leaf in state[1]] == [(3, 2, 1)] * 2
    choice = layer.alignment.choice(state)
    expected = 2 * np.array([6, 2, 0]) * np.log(5)
    close(choice.log_probability, -expected, 1e-6)
    close(choice.entropy, expected, 1e-6)


def test_gradients_of_the_state_are_finite_differences() -> None:
    """The sample is fixed; log-probability and entropy depend on scores, the weights do not."""
    rng = np.random.default_rng(2)
    scores, noise = rng.normal(size=(4, 7)).astype(WIDE), 9 * rng.gumbel(size=(4, 7)).astype(WIDE)
    mask = rng.random((4, 7)) > 0.3
    mask[3] = False
    align = ReinforceAlignment(dtype=WIDE)
    align.build((4, 7))
    check_gradients(
        align, differentiable(align, lambda x: sample_weights(align, x, mask, noise)), [scores]
    )
    single = differentiable(align, lambda x: sample_weights(align, x, mask, noise)[0])
    assert not single(scores)[1][0].any()


def test_gradient_of_entropy_is_finite_at_certainty() -> None:
    """-p log p at p = 0 and 1, where the formula contains 0 log 0."""
    align = ReinforceAlignment()
    align.build((3, 3))
    scores = np.array([[0, -200, -1e5], [1e5, 0, 0], [0, -np.inf, 1]], "float32")
    run = differentiable(
        align, lambda x: sample_weights(align, x, None, np.zeros((3, 3), "float32"))[1]
    )
    (log_probability, entropy), (gradient,), _ = run(scores)
    np.testing.assert_allclose(log_probability[:2], 0, atol=1e-6)
    np.testing.assert_allclose(entropy[:2], 0, atol=1e-6)
    assert np.isfinite(entropy).all()
    assert np.isfinite(gradient).all()


def test_expected_rate() -> None:
    """This fraction of steps is soft and has no log-probability; its noise is independent."""
    rate, count = 0.3, 20_000
    align = ReinforceAlignment(rate, seed=1)
    scores = np.tile(SCORES, (count, 1))
    weights, (log_probability, entropy) = quick(lambda x: sample_weights(align, x, MASK))(scores)
    weights, log_probability = array(weights), array(log_probability)[:, 0]
    soft = weights.max(-1) < 1
    assert soft.mean() == pytest.approx(rate, abs=5 * np.sqrt(rate * (1 - rate) / count))
    probabilities = softmax(SCORES.astype("float64"), MASK)
    np.testing.assert_allclose(weights[soft], np.tile(probabilities, (soft.sum(), 1)), atol=1e-6)
    assert not log_probability[soft].any()
    assert (log_probability[~soft] < 0).all()
    np.testing.assert_allclose(array(entropy), array(entropy)[0, 0], rtol=1e-6)
    counts = weights[~soft].sum(0)
    sigma = np.sqrt(counts.sum() * probabilities * (1 - probabilities))
    assert (np.abs(counts - counts.sum() * probabilities) <= 5 * sigma).all()


def test_expected_steps_are_sampled_once_per_row() -> None:
    """All steps and heads of an image are soft, or none is."""
    align = ReinforceAlignment(0.5, seed=1)
    query = np.random.default_rng(0).normal(size=(64, 5, 4)).astype("float32")
    for layer in (Attention("dot", align), MultiHeadAttention(2, 3, alignment=align)):
        result = layer(query, query[:, :3], return_attention_scores=True, training=True)
        soft = (array(result[1]).max(-1) < 1).reshape(64, -1)
        assert (soft == soft[:, :1]).all()
        assert 16 < soft[:, 0].sum() < 48


def test_only_expected_steps_have_gradients_through_the_weights() -> None:
    align = ReinforceAlignment(0.5, seed=1)
    align.build((40, 6))
    noise = align.sample_noise((40, 6), "float32")
    assert tuple(noise.shape) == (40, 7)
    run = differentiable(align, lambda x: sample_weights(align, x, MASK, noise)[0])
    weights, (gradient,), _ = run(np.tile(SCORES, (40, 1)))
    soft = weights.max(-1) < 1
    assert 5 < soft.sum() < 35
    assert (np.abs(gradient).max(-1) > 0).tolist() == soft.tolist()


def test_symbolic_state_matches_the_state() -> None:
    layer = Attention("dot", "reinforce")
    query, value = keras.Input((None, 4)), keras.Input((None, 4))
    _, state = layer(query, value, return_state=True)
    choice = layer.alignment.choice(state)
    assert [x.shape for x in choice] == [(None,), (None,)]
    model = keras.Model([query, value], choice._asdict())
    out = model([np.zeros((2, 3, 4), "float32"), np.zeros((2, 5, 4), "float32")])
    close(out["entropy"], np.full(2, 3 * np.log(5)), 1e-6)


@pytest.mark.parametrize("expected_rate", [0.0, 0.9])
def test_nan_scores_reach_weights_and_state(expected_rate: float) -> None:
    """Row 0 has a NaN score, row 1 a masked one; NaN in a sum would make a loss NaN."""
    align = ReinforceAlignment(expected_rate, seed=1)
    scores = np.array([[0, np.nan, 1], [0, np.nan, 1], [np.nan] * 3], "float32")
    mask = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], "bool")
    noise = np.zeros((3, 4 if expected_rate else 3), "float32")
    weights, (log_probability, entropy) = sample_weights(align, scores, mask, noise)
    expected = [True, False, True]
    assert np.isnan(array(weights)[:, [0, 2]]).all(-1).tolist() == expected
    assert np.isnan(array(entropy))[:, 0].tolist() == expected
    if not expected_rate:  # steps with expected weights add no log probability
        assert np.isnan(array(log_probability))[:, 0].tolist() == expected
    assert array(weights)[1, 1] == 0
