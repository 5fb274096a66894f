from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import attention_zoo as az
from attention_zoo.layers import (
    SAMPLING_SCHEDULES,
    AdditiveAttention,
    Attention,
    AttentionCell,
    ConstantSampling,
    ExponentialSampling,
    InverseSigmoidSampling,
    LinearSampling,
    RecurrentDecoder,
    SamplingSchedule,
    ScheduledSampling,
)
from attention_zoo.layers.recurrent.scheduled_sampling import sample_decoder_inputs
from attention_zoo.models.presets import PRESETS
from tests.layers.conformance import LayerConformance
from tests.layers.running import JAX, MODES, array, close, compiled, differentiable, randomise, same

TOKENS = np.array([[2, 5, 6, 7, 8, 4], [2, 8, 3, 0, 0, 0], [0, 0, 2, 7, 5, 6]], "int32")
"""Two sentences with padding on the right or left, and one without."""


class TestScheduledSampling(LayerConformance):
    """Outside of training it is the identity; training is tested below."""

    covers = ScheduledSampling
    changed = {"schedule": {"schedule": "constant", "probability": 0.0}, "seed": 5}
    together = {"seed": {"schedule": {"schedule": "constant", "probability": 0.5}}}

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        return (TOKENS[:batch],)

    def compute_outputs(self, layer: Any, tokens: Any) -> Any:
        """Return the tokens fed to a decoder that predicts the next token id."""

        def step(tokens: Any, state: Any) -> Any:
            return ops.one_hot(tokens + 1, 10), state

        return layer(tokens, step=step, state=ops.zeros((ops.shape(tokens)[0], 1)))

    # Inputs, outputs and the counter are integers under every policy.
    test_dtype_policy = None
    test_dtype_argument_applies_to_every_weight = None


@pytest.mark.parametrize(
    ("schedule", "at", "want"),
    [
        (ConstantSampling(0.3), (0, 7, 1e9), (0.3, 0.3, 0.3)),
        (LinearSampling(0.9, 0.1, 0.25), (0, 3, 6, 7, 1e9), (0.9, 0.6, 0.3, 0.25, 0.25)),
        (ExponentialSampling(0.5), (0, 1, 3, 1e9), (1, 0.5, 0.125, 0)),
        (InverseSigmoidSampling(1), (0, np.log(3), 1e9), (1 / 2, 1 / 4, 0)),
        (InverseSigmoidSampling(4), (0, 4 * np.log(4)), (4 / 5, 1 / 2)),
        (InverseSigmoidSampling(1e6), (0, 1e6), (1, 1 / (1 + np.e * 1e-6))),
    ],
    ids=str,
)
def test_schedules_by_hand(schedule: Any, at: tuple[float, ...], want: tuple[float, ...]) -> None:
    got = [float(array(schedule(ops.cast(update, "float32")))) for update in at]
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("name", SAMPLING_SCHEDULES.names())
def test_schedules_decrease_from_1(name: str) -> None:
    schedule = SAMPLING_SCHEDULES.get(name)()
    steps = ops.convert_to_tensor(np.arange(0, 50000, 97, dtype="float32"))
    chances = array(schedule(steps)) * np.ones(len(steps))
    assert (chances >= 0).all()
    assert (chances <= 1).all()
    assert (np.diff(chances) <= 1e-7).all()
    saved = json.loads(json.dumps(keras.saving.serialize_keras_object(schedule)))
    assert keras.saving.deserialize_keras_object(saved) == schedule


def test_custom_schedule() -> None:
    class Alternating(SamplingSchedule):
        def __call__(self, update: Any) -> Any:
            return update % 2

    sampling = ScheduledSampling(Alternating())
    assert float(array(sampling.probability)) == 0
    _sample_inputs(sampling, ToyDecoder())
    assert float(array(sampling.probability)) == 1


class ToyDecoder:
    """A decoder with embedding, readout and random weights."""

    def __init__(self, cell: Any = None) -> None:
        keras.utils.set_random_seed(7)
        self.embedding, self.readout = layers.Embedding(9, 4), layers.Dense(9)
        self.decoder = RecurrentDecoder(cell or layers.GRUCell(6))
        attends = bool(self.decoder.cell.attentions)
        memory = np.random.default_rng(0).normal(size=(3, 5, 7)).astype("float32")
        self.memory = ops.convert_to_tensor(memory) if attends else None
        self.call(TOKENS)
        for layer in (self.embedding, self.decoder, self.readout):
            randomise(layer, 3, 1.0)
        self.constants, self.start = self.decoder.start(self.memory, None, None, 3)

    def call(self, tokens: Any, mask: Any = None) -> Any:
        return self.readout(self.decoder(self.embedding(tokens), self.memory, inputs_mask=mask))

    def step(self, tokens: Any, state: Any) -> Any:
        record, state = self.decoder.step(self.embedding(tokens), state, self.constants)
        return self.readout(record.output), state


CELLS = {
    "plain": lambda: [layers.GRUCell(5), layers.LSTMCell(6)],
    "attend_then_step": lambda: AttentionCell(
        layers.LSTMCell(6), AdditiveAttention(8), order="attend_then_step"
    ),
    "input_feeding": lambda: AttentionCell(
        layers.GRUCell(6), AdditiveAttention(8), attention_layer_size=5
    ),
    "is_stateful": lambda: AttentionCell(
        layers.GRUCell(6), Attention("additive", "monotonic"), order="attend_then_step"
    ),
}


def _sample_inputs(
    sampling: ScheduledSampling, toy: ToyDecoder, mask: Any = None, tokens: Any = TOKENS
) -> Any:
    return sampling(tokens, step=toy.step, state=toy.start, mask=mask, training=True)


def sample_by_loop(
    toy: ToyDecoder, tokens: np.ndarray, truth: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Loop over rows and steps in Python; masked steps are skipped."""
    fed = tokens.copy()
    for row in range(len(tokens)):
        memory, predicted = None if toy.memory is None else toy.memory[row : row + 1], None
        constants, state = toy.decoder.start(memory, None, None, 1)
        for t in np.flatnonzero(mask[row]):
            if predicted is not None and not truth[row, t]:
                fed[row, t] = predicted
            inputs = toy.embedding(fed[row : row + 1, t])
            record, state = toy.decoder.step(inputs, state, constants)
            predicted = int(array(toy.readout(record.output))[0].argmax())
    return fed


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cell", CELLS)
def test_probability_0_feeds_greedy_predictions(cell: str, mode: str) -> None:
    toy, sampling, mask = (
        ToyDecoder(CELLS[cell]()),
        ScheduledSampling(ConstantSampling(0)),
        TOKENS != 0,
    )
    run = compiled(lambda tokens: _sample_inputs(sampling, toy, mask, tokens), mode)
    fed = array(run(ops.convert_to_tensor(TOKENS)))
    expected = sample_by_loop(toy, TOKENS, np.zeros(TOKENS.shape, "bool"), mask)
    assert fed.tolist() == expected.tolist()
    assert (fed != TOKENS).any()
    assert not fed[~mask].any()
    assert fed[:2, 0].tolist() == [2, 2]
    assert fed[2, 2] == 2


@pytest.mark.full
@pytest.mark.parametrize("cell", ["plain", "input_feeding"])
def test_sampled_mask_selects_truth_or_prediction(cell: str) -> None:
    toy, mask = ToyDecoder(CELLS[cell]()), TOKENS != 0
    for seed in range(3):
        truth = np.random.default_rng(seed).random(TOKENS.shape) < 0.5
        first = (mask.cumsum(1) <= 1) | truth
        fed = sample_decoder_inputs(toy.step, toy.start, TOKENS, ops.convert_to_tensor(first), mask)
        assert array(fed).tolist() == sample_by_loop(toy, TOKENS, truth, mask).tolist()


def test_probability_1_is_teacher_forcing() -> None:
    toy = ToyDecoder(CELLS["input_feeding"]())
    sampling = ScheduledSampling(ConstantSampling(1))
    same(_sample_inputs(sampling, toy, TOKENS != 0), TOKENS)


@pytest.mark.parametrize("training", [None, False])
def test_outside_of_training_nothing_changes(training: bool | None) -> None:
    sampling = ScheduledSampling(ConstantSampling(0))
    same(sampling(TOKENS, training=training), TOKENS)
    assert int(array(sampling.updates)) == 0


def test_sampling_frequency_equals_the_schedule() -> None:
    """Over 4000 tokens, where the truth is 5 and the decoder always predicts 7."""
    tokens = np.full((200, 21), 5, "int32")

    def step(fed: Any, state: Any) -> Any:
        return ops.one_hot(ops.full_like(fed, 7), 9), state

    for p in (0.2, 0.75):
        sampling = ScheduledSampling(ConstantSampling(p), seed=1)
        fed = array(sampling(tokens, step=step, state=(), training=True))
        assert (fed[:, 0] == 5).all()
        assert abs((fed[:, 1:] == 5).mean() - p) < 3 * np.sqrt(p * (1 - p) / 4000)


def test_sampling_is_seeded_and_differs_between_calls() -> None:
    toy = ToyDecoder()
    first, repeated = (ScheduledSampling(ConstantSampling(0.5), seed=3) for _ in range(2))
    runs = [array(_sample_inputs(first, toy)) for _ in range(4)]
    assert len({x.tobytes() for x in runs}) > 1
    for x in runs:
        same(_sample_inputs(repeated, toy), x)


@pytest.mark.parametrize("mode", MODES if not JAX else ["eager"])
def test_schedule_depends_on_updates(mode: str) -> None:
    toy, sampling = ToyDecoder(), ScheduledSampling(LinearSampling(1.0, 0.5))
    run = compiled(lambda tokens: _sample_inputs(sampling, toy, None, tokens), mode)
    tokens, chances = ops.convert_to_tensor(TOKENS), []
    for _ in range(3):
        chances.append(float(array(sampling.probability)))
        last = run(tokens)
    assert chances == [1, 0.5, 0]
    assert int(array(sampling.updates)) == 3
    every = np.ones(TOKENS.shape, "bool")
    assert array(last).tolist() == sample_by_loop(toy, TOKENS, ~every, every).tolist()


def test_padding_does_not_affect_outputs() -> None:
    toy, mask = ToyDecoder(CELLS["attend_then_step"]()), TOKENS != 0
    sampling = ScheduledSampling(ConstantSampling(0))
    expected = array(_sample_inputs(sampling, toy, mask))
    padded = np.concatenate([TOKENS, np.full((3, 5), 8, "int32")], axis=1)
    padded_mask = np.concatenate([mask, np.zeros((3, 5), "bool")], axis=1)
    got = array(_sample_inputs(sampling, toy, padded_mask, padded))
    same(got[:, :6], expected)
    assert (got[:, 6:] == 8).all()


def test_gradients_equal_those_for_the_sampled_tokens() -> None:
    toy = ToyDecoder(CELLS["input_feeding"]())
    model = keras.Sequential([toy.embedding, toy.decoder.cell.cell, toy.readout])
    fed = _sample_inputs(ScheduledSampling(ConstantSampling(0)), toy)

    def sampled(memory: Any) -> Any:
        constants, start = toy.decoder.start(memory, None, None, 3)

        def step(tokens: Any, state: Any) -> Any:
            record, state = toy.decoder.step(toy.embedding(tokens), state, constants)
            return toy.readout(record.output), state

        sampling = ScheduledSampling(ConstantSampling(0))
        chosen = sampling(TOKENS, step=step, state=start, training=True)
        return toy.readout(toy.decoder(toy.embedding(chosen), memory))

    def plain(memory: Any) -> Any:
        return toy.readout(toy.decoder(toy.embedding(fed), memory))

    memory = array(toy.memory).astype("float32")
    got, expected = (differentiable(model, run)(memory) for run in (sampled, plain))
    close(got, expected, 1e-6)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (3, 1)])
def test_small_sizes(shape: tuple[int, int]) -> None:
    tokens = np.full(shape, 2, "int32")
    toy = ToyDecoder()
    _, start = toy.decoder.start(None, None, None, shape[0])
    sampling = ScheduledSampling(ConstantSampling(0))
    fed = sampling(tokens, step=toy.step, state=start, training=True)
    same(fed, tokens)


def test_invalid_arguments_are_rejected() -> None:
    toy, sampling = ToyDecoder(), ScheduledSampling("constant")
    with pytest.raises(ValueError, match="needs step, the"):
        sampling(TOKENS, training=True)
    with pytest.raises(ValueError, match=r"tokens must be \(batch, steps\)"):
        sampling(TOKENS[..., None], step=toy.step, state=toy.start, training=True)
    with pytest.raises(ValueError, match=r"tokens must be \(batch, steps\)"):
        sampling(TOKENS[0])
    with pytest.raises(ValueError, match="tokens must be integers, got dtype"):
        sampling(TOKENS.astype("float32"), step=toy.step, state=toy.start, training=True)
    with pytest.raises(ValueError, match="mask has dtype float32"):
        _sample_inputs(sampling, toy, np.ones(TOKENS.shape, "float32"))


SIZES = {"source_vocabulary_size": 11, "target_vocabulary_size": 12}
SOURCE = np.array([[4, 5, 6, 7, 8], [9, 8, 0, 0, 0]], "int32")
NARROW = ("embedding_dim", "units", "attention_units", "readout_units", "dropout")
TARGET = np.array([[2, 4, 5, 6, 7, 9], [2, 8, 9, 0, 0, 0]], "int32")


def translators(schedule: Any) -> list[tuple[Any, Any]]:
    """Each model with scheduled sampling, and one with the same weights without it."""
    result = []
    for name in az.list_presets():
        cls, numbers = PRESETS.get(name)()
        if not name.endswith("_small") or not issubclass(cls, az.models.EncoderDecoder):
            continue
        if "source_vocabulary_size" not in inspect.signature(cls).parameters:
            continue
        narrow = {key: 0.0 if key == "dropout" else 6 for key in numbers if key in NARROW}
        options = {**SIZES, **narrow}
        plain = az.models.from_preset(name, **options)
        randomise(plain, scale=0.5)
        model = az.models.from_preset(name, **options, sampling=ScheduledSampling(schedule))
        for mine, theirs in zip(model.trainable_variables, plain.trainable_variables, strict=True):
            mine.assign(theirs)
        result.append((model, plain))
    assert len(result) >= 3
    return result


@pytest.mark.full
def test_translators_at_probability_1_are_teacher_forced() -> None:
    inputs = {"source": SOURCE, "target": TARGET}
    for model, plain in translators(ConstantSampling(1)):
        close(model(inputs, training=True), plain(inputs, training=True), 1e-6)
        assert int(array(model.sampling.updates)) == 1
        close(model(inputs, training=False), plain(inputs), 1e-6)
        assert int(array(model.sampling.updates)) == 1


@pytest.mark.full
def test_translators_at_probability_0_use_their_predictions() -> None:
    """Greedy predictions, which do not stop at the end token."""
    for model, plain in translators(ConstantSampling(0)):
        result = plain.search(SOURCE, max_length=5)
        predicted = np.concatenate([np.full((2, 1), 2), array(result.tokens)[:, 0, :]], axis=1)
        inputs = {"source": SOURCE, "target": np.full((2, 6), 2, "int32")}
        logits = array(model(inputs, training=True))
        for row, length in enumerate(array(result.lengths)[:, 0]):
            expected = plain({"source": SOURCE, "target": np.maximum(predicted[:, :6], 1)})
            close(logits[row, :length], array(expected)[row, :length], 1e-5)


def test_translator_without_sampling() -> None:
    options = {**SIZES, "units": 6}
    plain = az.models.from_preset("rnnsearch_small", **options)
    assert plain.sampling is None
    assert "sampling" not in plain.get_config()
    with pytest.raises(ValueError, match="did you mean 'exponential'"):
        az.models.from_preset("rnnsearch_small", **options, sampling="exponentia")


@pytest.mark.parametrize(
    "sampling",
    [
        LinearSampling(slope=0.25),
        {"schedule": "linear", "slope": 0.25},
        ScheduledSampling({"schedule": "linear", "slope": 0.25}),
        "linear",
    ],
    ids=["schedule", "constants", "layer", "name"],
)
def test_schedule_arguments_reach_the_translator(sampling: Any) -> None:
    model = az.models.from_preset("rnnsearch_small", **SIZES, units=6, sampling=sampling)
    model({"source": SOURCE, "target": TARGET}, training=True)
    expected = LinearSampling() if sampling == "linear" else LinearSampling(slope=0.25)
    assert model.sampling.schedule == expected
    repeated = type(model).from_config(model.get_config())
    assert repeated.sampling.schedule == model.sampling.schedule


def test_saved_translator_continues_with_and_without_sampling(tmp_path: Path) -> None:
    options = {**SIZES, "units": 6, "embedding_dim": 4}
    for kind in ({"sampling": "linear"}, {}):
        model = az.models.from_preset("seq2seq_initial_small", **options, **kind)
        if kind:
            model.sampling.updates.assign(7)
        model.save_to_preset(tmp_path)
        assert az.models.from_preset(tmp_path).sampling is None
        repeated = az.models.from_preset(tmp_path, sampling="linear")
        assert int(array(repeated.sampling.updates)) == (7 if kind else 0)
        same(repeated.trainable_variables, model.trainable_variables)
