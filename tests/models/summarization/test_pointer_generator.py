from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.losses import CopyCrossEntropy, SequenceCrossEntropy
from attention_zoo.models import PointerGenerator
from tests.layers.running import JAX, array, close, randomise
from tests.models.generation_conformance import SOURCE, TARGET, GenerationConformance, forward
from tests.refusals import refuses

SIZES = {"vocabulary_size": 8, "embedding_dim": 6, "units": 8, "copies": 4}
COVERED = {**SIZES, "coverage": {"from_step": 2, "weight": 0.5}}


class TestPointerGenerator(GenerationConformance):
    """The last four of the 12 ids are out-of-vocabulary words."""

    covers = PointerGenerator
    vocabulary = {"vocabulary_size": 8}
    options = {
        "embedding_dim": 6,
        "units": 8,
        "copies": 4,
        "coverage": {"from_step": 0, "weight": 0.5},
    }
    half = "float32"
    rate = 0.01
    changed = {
        "vocabulary_size": 13,
        "embedding_dim": 4,
        "units": 6,
        "copies": 3,
        "coverage": {"from_step": 3, "weight": 0.5},
        "dropout": 0.25,
    }

    @staticmethod
    def fill(model: PointerGenerator) -> None:
        randomise(model, scale=0.4)
        if model.switch is not None:
            model.switch.steps.assign(model.switch.from_step)

    def loss(self, model: PointerGenerator, label_smoothing: float) -> keras.losses.Loss:
        return model.make_loss()


def tiny(**options: Any) -> PointerGenerator:
    model = PointerGenerator(**{**SIZES, **options})
    randomise(model)
    return model


def test_parameter_counts_follow_the_paper() -> None:
    """Section 4: 21,499,600 without the pointer, which has 1153 more, and coverage 512."""
    sizes = {"vocabulary_size": 50_000, "embedding_dim": 128, "units": 256}
    models_by_name = {
        "plain": PointerGenerator(**sizes, copies=0),
        "pointer": PointerGenerator(**sizes),
        "coverage": az.models.from_preset("pointer_generator_base", vocabulary_size=50_000),
    }
    counts = {
        name: sum(int(np.prod(v.shape)) for v in model.trainable_variables)
        for name, model in models_by_name.items()
    }
    assert counts == {"plain": 21_499_600, "pointer": 21_500_753, "coverage": 21_501_265}


def decode_parts(model: PointerGenerator, source: np.ndarray, target: np.ndarray) -> Any:
    """Return p_gen, the generation and the copy distribution, `(B, T, V + C)` in float64."""
    of = model({"source": source, "target": target}, project=False)
    logits, gate, weights = (array(x) for x in (of.projection.logits(), of.gate, of.weights))
    generated = np.zeros((*logits.shape[:2], model.target_vocabulary_size))
    exp = np.exp(logits - logits.max(-1, keepdims=True))
    generated[..., : model.vocabulary_size] = exp / exp.sum(-1, keepdims=True)
    copied = np.zeros_like(generated)
    for row, position in np.ndindex(*source.shape):
        copied[row, :, source[row, position]] += weights[row, :, position]
    return 1 / (1 + np.exp(-gate))[..., None], generated, copied


def test_distribution_follows_the_paper() -> None:
    model = tiny()
    p_gen, generated, copied = decode_parts(model, SOURCE, TARGET)
    valid = TARGET != 0
    expected = (p_gen * generated + (1 - p_gen) * copied)[valid]
    np.testing.assert_allclose(np.exp(forward(model, SOURCE, TARGET))[valid], expected, atol=1e-6)
    assert (p_gen[valid] > 0.01).all()
    assert (p_gen[valid] < 0.99).all()


def test_out_of_vocabulary_words_are_embedded_as_unknown_and_generated() -> None:
    model = tiny()
    assert (
        array(model.to_vocabulary_ids(SOURCE)).tolist() == np.where(SOURCE >= 8, 1, SOURCE).tolist()
    )
    unknown = np.where(SOURCE >= 8, 1, SOURCE)
    probabilities, one = (np.exp(forward(model, source, TARGET)) for source in (SOURCE, unknown))
    valid = TARGET != 0
    np.testing.assert_allclose(
        (probabilities[..., 1] + probabilities[..., 8:].sum(-1))[valid], one[..., 1][valid], 1e-5
    )
    np.testing.assert_allclose(probabilities[..., 2:8], one[..., 2:8], atol=1e-6)
    assert (probabilities[0, :, [8, 9]] > 1e-3).all()
    assert probabilities[2, :, 8:].max() < 1e-20, "a source without such words"


def test_trace_contains_copied_words_and_source_positions() -> None:
    model = tiny()
    tokens = np.array([[8, 4, 3, 0], [5, 9, 8, 3], [5, 3, 0, 0]], "int32")
    trace = model.compiled_trace(SOURCE, tokens)
    eager = model.trace(SOURCE, tokens)
    np.testing.assert_allclose(trace.attention, array(eager.attention), atol=1e-6)
    np.testing.assert_allclose(trace.copied, array(eager.copied), atol=1e-6)
    target = np.concatenate([np.full((3, 1), 2), tokens[:, :-1]], axis=1).astype("int32")
    p_gen, generated, copied = decode_parts(model, SOURCE, target)
    share = (1 - p_gen) * copied / np.maximum(p_gen * generated + (1 - p_gen) * copied, 1e-30)
    expected = np.take_along_axis(share, tokens[..., None], axis=-1)[..., 0]
    valid = tokens != 0
    np.testing.assert_allclose(trace.copied[valid], expected[valid], atol=1e-5)
    assert trace.copied[0, 0] == pytest.approx(1)
    assert not trace.copied[~valid].any()
    assert not trace.attention[~valid].any()
    np.testing.assert_allclose(trace.attention[valid].sum(-1), 1, atol=1e-5)
    nothing = model.trace(SOURCE, tokens[:, :0])
    assert tuple(nothing.attention.shape) == (3, 0, 6)


@pytest.mark.full
def test_without_copying_nothing_is_copied() -> None:
    model = tiny(copies=0)
    assert forward(model, SOURCE % 8, TARGET % 8).shape == (3, 5, 8)
    assert model.head is None
    loss = model.make_loss(0.1)
    assert isinstance(loss, SequenceCrossEntropy)
    assert loss.label_smoothing == 0.1
    result = model.compiled_search(SOURCE % 8, max_length=4)
    trace = model.compiled_trace(SOURCE % 8, np.asarray(result.tokens)[:, 0])
    assert not trace.copied.any()
    close(trace.attention, np.asarray(result.attention)[:, 0], 1e-4)


def test_invalid_arguments_are_rejected() -> None:
    model = PointerGenerator(**SIZES)
    assert isinstance(model.make_loss(), CopyCrossEntropy)
    with pytest.raises(ValueError, match=r"label_smoothing must be 0 for .* that copies .*0\.1$"):
        model.make_loss(0.1)
    with pytest.raises(ValueError, match=r"source token ids must be .* vocabulary size 12, got 12"):
        model.compiled_search(SOURCE + 3)


@refuses(
    ({"copies": -1}, "copies must be at least 0, got -1"),
    ({"coverage": True}, r"must be a dict of options.* got True \(known: from_step, weight\)"),
    ({"coverage": {"from": 3}}, r"coverage has no option 'from'.* \(known: from_step, weight\)"),
    ({"coverage": {"from_step": -1}}, r"coverage.from_step must be at least 0, got -1"),
    ({"coverage": {"weight": float("nan")}}, r"coverage.weight must be at least 0, got nan"),
)
def test_invalid_options_are_rejected(options: dict) -> None:
    PointerGenerator(**{**SIZES, **options})


LABELS = np.concatenate([TARGET[:, 1:], np.zeros((3, 1), "int32")], axis=1)
INPUTS = {"source": SOURCE, "target": TARGET}


def train(model: PointerGenerator, steps: int) -> list[float]:
    """Train for this number of steps; return the losses."""
    if not model.compiled:
        model.compile(keras.optimizers.Adam(0.05), model.make_loss(), jit_compile=JAX)
    return [float(model.train_on_batch(INPUTS, LABELS)) for _ in range(steps)]


def copy_weights_to(model: PointerGenerator, **options: Any) -> PointerGenerator:
    """Return a model with other options and the same values of the common weights."""
    other = PointerGenerator(**{**model.settings, **options})
    for weight, source in zip(other.weights, model.weights, strict=False):
        assert weight.name == source.name
        weight.assign(array(source))
    return other


@pytest.mark.full
def test_coverage_starts_at_its_step_and_not_before() -> None:
    covered = PointerGenerator(**COVERED)
    plain = copy_weights_to(covered, coverage=None)
    w_c = covered.attention.score.coverage_kernel
    np.testing.assert_allclose(train(covered, 2), train(plain, 2), rtol=1e-6)
    assert not array(w_c).any()
    forward(covered, SOURCE, TARGET)
    assert int(covered.switch.steps) == 2
    np.testing.assert_allclose(
        forward(covered, SOURCE, TARGET), forward(plain, SOURCE, TARGET), atol=1e-5
    )
    (with_it,), (without,) = train(covered, 1), train(plain, 1)
    assert with_it > without + 1e-3, "the coverage loss counts"
    assert array(w_c).any()


def test_coverage_loss_follows_the_paper() -> None:
    """Equation 12, averaged over the words of a text, times its weight, in training only."""
    model = tiny(coverage={"weight": 0.5})
    of = model(INPUTS, project=False)
    assert model.losses == []
    model(INPUTS, training=True)
    weights, expected = array(of.weights), []
    for row, steps in enumerate((TARGET != 0).sum(1)):
        covered, costs = np.zeros(6), []
        for t in range(steps):
            costs.append(np.minimum(weights[row, t], covered).sum())
            covered += weights[row, t]
        expected.append(np.mean(costs))
    (loss,) = model.losses
    assert float(loss) == pytest.approx(0.5 * np.mean(expected), rel=1e-5)


def test_coverage_moves_attention_away_from_covered_positions() -> None:
    """By w_c of equation 11: only later steps change, and only once coverage is active."""
    model = tiny(**COVERED)
    model.attention.score.coverage_kernel.assign(np.full(16, 3.0))
    weights = {}
    for steps in (1, 2):
        model.switch.steps.assign(steps)
        weights[steps] = array(model(INPUTS, project=False).weights)
    np.testing.assert_array_equal(weights[1][:, 0], weights[2][:, 0])
    assert np.abs(weights[1][0, 1:] - weights[2][0, 1:]).max() > 1e-2


@pytest.mark.full
@pytest.mark.skipif(JAX, reason="the same file on every backend")
def test_resumed_training_is_exact_across_the_coverage_start(tmp_path: Path) -> None:
    """Saved at step 1, with coverage from step 2 on: equal to uninterrupted training."""
    keras.utils.set_random_seed(0)
    full = PointerGenerator(**COVERED)
    train(full, 1)
    full.save(tmp_path / "model.keras")
    first = train(full, 3)
    repeated = keras.models.load_model(tmp_path / "model.keras")
    assert int(repeated.switch.steps) == 1
    assert train(repeated, 3) == first
    for one, other in zip(full.weights, repeated.weights, strict=True):
        np.testing.assert_array_equal(array(other), array(one))
    assert int(repeated.switch.steps) == 4


@pytest.mark.full
def test_weights_transfer_to_a_model_with_coverage(tmp_path: Path) -> None:
    plain = tiny()
    plain.save_to_preset(tmp_path / "plain")
    covered = az.models.from_preset(tmp_path / "plain", coverage={"from_step": 1})
    assert int(covered.switch.steps) == 0
    np.testing.assert_array_equal(forward(covered, SOURCE, TARGET), forward(plain, SOURCE, TARGET))
    train(covered, 2)
    covered.save_to_preset(tmp_path / "covered")
    repeated = az.models.from_preset(tmp_path / "covered")
    assert int(repeated.switch.steps) == 2
    np.testing.assert_array_equal(
        forward(repeated, SOURCE, TARGET), forward(covered, SOURCE, TARGET)
    )


MARK = 4


def make_reports(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Seven words, two of them out of vocabulary; the target is the word after the mark."""
    rng = np.random.default_rng(seed)
    source = rng.integers(5, 12, size=(count, 7))
    targets = np.empty(count, "int64")
    for row in range(count):
        first, second = np.sort(rng.choice([1, 3, 5], size=2, replace=False))
        source[row, [first, second]] = [12, 13]
        position = rng.choice([first, second])
        source[row, position - 1] = MARK
        targets[row] = source[row, position]
    return source.astype("int32"), np.stack([targets, np.full(count, 3)], 1).astype("int32")


@pytest.mark.slow
def test_learns_to_copy_out_of_vocabulary_words() -> None:
    keras.utils.set_random_seed(1)
    model = PointerGenerator(12, embedding_dim=12, units=24, copies=2)
    model.compile(keras.optimizers.Adam(0.01), model.make_loss(), jit_compile=JAX)
    source, labels = make_reports(768, 0)
    target = np.concatenate([np.full((768, 1), 2), labels[:, :1]], 1).astype("int32")
    model.fit(
        {"source": source, "target": target},
        labels,
        batch_size=32,
        epochs=12,
        shuffle=False,
        verbose=0,
    )
    source, labels = make_reports(128, 1)
    result = model.compiled_search(source, beam_width=2, max_length=3)
    tokens = np.asarray(result.tokens)[:, 0, :2]
    assert (tokens == labels).all(1).mean() > 0.95
    trace = model.compiled_trace(source, tokens)
    copied = trace.copied[:, 0]
    assert copied.mean() > 0.95, "it was copied"
    assert trace.copied[:, 1].mean() < 0.1, "the end token is generated, not copied"
    positions = trace.attention[:, 0].argmax(1)
    assert (source[np.arange(128), positions] == labels[:, 0]).mean() > 0.95


@pytest.mark.skipif(JAX, reason="JAX has float64 only where a switch of its own is on")
def test_coverage_in_double_precision() -> None:
    """One row of the source is empty."""
    model = PointerGenerator(**{**COVERED, "coverage": {}}, dtype="float64")
    source, target = np.array([[4, 5, 9], [0, 0, 0]]), np.array([[2, 4], [2, 9]])
    log_probs = array(model({"source": source, "target": target}, training=True))
    assert log_probs.dtype == "float64"
    close(np.exp(log_probs).sum(-1), np.ones((2, 2)), 1e-6)
