"""Layers and losses in plain Keras models: training with `fit`, export, mixed precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from attention_zoo.layers import (
    CRF,
    AdditiveAttention,
    Attention,
    AttentionCell,
    AttentionFeatureMap,
    LinearSampling,
    MarginalMixture,
    RecurrentDecoder,
    ReinforceAlignment,
    ScheduledSampling,
)
from attention_zoo.losses import CRFLoss, Reinforce, SequenceCrossEntropy
from tests.layers.attention_case import softmax
from tests.layers.heads.test_crf import NAMES, make_sentences, make_tagger
from tests.layers.running import JAX, array, in_fresh_process

pytestmark = pytest.mark.full


def test_marginal_mixture() -> None:
    """The label is at the position whose key equals the query; the loss gets only the label."""
    rng = np.random.default_rng(0)
    keys = np.stack([rng.permutation(6) for _ in range(2048)])
    labels = rng.integers(0, 4, size=(2048, 6))
    queried = rng.integers(0, 6, size=2048)
    query, key = np.eye(6)[queried][:, None], np.eye(6)[keys]
    value = np.eye(4)[labels]
    target = labels[np.arange(2048), (keys == queried[:, None]).argmax(1)][:, None]

    q, k, v = keras.Input((1, 6)), keras.Input((6, 6)), keras.Input((6, 4))
    _, weights = Attention("general")(q, v, k, return_attention_scores=True)
    logits = ops.expand_dims(keras.layers.Dense(4)(v), 1)
    model = keras.Model([q, k, v], MarginalMixture()(weights, logits))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
    model.fit([query, key, value], target, batch_size=64, epochs=8, shuffle=False, verbose=0)
    _, accuracy = model.evaluate([query, key, value], target, verbose=0)
    assert accuracy > 0.95


class Copier(keras.Model):
    """Copies five tokens; the decoder is trained with scheduled sampling."""

    def __init__(self, schedule: Any) -> None:
        super().__init__()
        self.embedding = layers.Embedding(9, 16)
        self.encoder = layers.GRU(32, return_sequences=True)
        cell = AttentionCell(layers.GRUCell(32), AdditiveAttention(16), attention_layer_size=32)
        self.decoder, self.readout = RecurrentDecoder(cell), layers.Dense(9)
        self.sampling = ScheduledSampling(schedule, seed=1)

    def build(self, input_shape: Any) -> None:
        self.embedding.build(None)
        self.encoder.build((None, None, 16))
        self.decoder.build((None, None, 16), (None, None, 32))
        self.readout.build((None, None, 32))

    def call(self, inputs: Any, training: bool = False) -> Any:
        memory, tokens = self.encoder(self.embedding(inputs["source"])), inputs["target"]
        if training:
            prepared, start = self.decoder.start(memory, None, None, ops.shape(tokens)[0])

            def step(tokens: Any, state: Any) -> Any:
                record, state = self.decoder.step(self.embedding(tokens), state, prepared)
                return self.readout(record.output), state

            tokens = self.sampling(tokens, step=step, state=start, training=True)
        return self.readout(self.decoder(self.embedding(tokens), memory))


def test_scheduled_sampling() -> None:
    """Training moves from teacher forcing to sampling; the greedy decoder then copies."""
    source = np.random.default_rng(0).integers(3, 9, size=(6400, 5))
    target = np.concatenate([np.full((6400, 1), 2), source[:, :-1]], axis=1)
    model = Copier(LinearSampling(slope=1 / 150))
    model.compile(keras.optimizers.Adam(0.01), SequenceCrossEntropy(), jit_compile=JAX)
    model.fit({"source": source, "target": target}, source, batch_size=32, shuffle=False, verbose=0)
    assert int(array(model.sampling.updates)) == 200
    assert float(array(model.sampling.probability)) == 0
    new = np.random.default_rng(1).integers(3, 9, size=(64, 5))
    generated = np.full((64, 6), 2)
    for t in range(5):
        logits = model({"source": new, "target": generated[:, :5]})
        generated[:, t + 1] = array(logits)[:, t].argmax(-1)
    assert (generated[:, 1:] == new).mean() > 0.9


@keras.saving.register_keras_serializable("attention_zoo_tests")
class Bandit(keras.Model):
    """Five-armed bandit: samples an arm from the same scores and receives its reward."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.align, self.reinforce = ReinforceAlignment(seed=2), Reinforce()
        self.scores = self.add_weight(shape=(5,), initializer="zeros", name="scores")
        self.align.build((None, 5))

    def call(self, rewards: Any, training: bool = False) -> Any:
        rows = keras.ops.zeros_like(rewards) + self.scores
        noise = self.align.sample_noise(keras.ops.shape(rows), "float32") if training else None
        state = self.align.initial_state(rows)
        weights, state = self.align(rows, state=state, noise=noise, training=training)
        return {"reward": keras.ops.sum(weights * rewards, axis=-1), "state": state}

    def compute_loss(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None, training: bool = True
    ) -> Any:
        choice = self.align.choice(((), y_pred["state"]))
        return self.reinforce(y_pred["reward"], *choice, training=training)


def test_reinforce(tmp_path: Path) -> None:
    """The best arm gets nearly all probability; the baseline converges to its reward."""
    model = Bandit()
    model.compile(keras.optimizers.Adam(0.1))
    rewards = np.tile(np.array([0.1, 0.2, 1.0, 0.0, 0.5], "float32"), (3200, 1))
    model.fit(rewards, batch_size=32, epochs=2, shuffle=False, verbose=0)
    probabilities = softmax(array(model.scores), np.True_)
    assert probabilities[2] > 0.95
    assert array(model.reinforce.baseline) == pytest.approx(1, abs=0.05)
    before = array(model.reinforce.baseline)
    model.evaluate(rewards[:64], verbose=0)
    assert array(model.reinforce.baseline) == before
    model.save(tmp_path / "bandit.keras")
    loaded = keras.models.load_model(tmp_path / "bandit.keras")
    assert array(loaded.reinforce.baseline) == before
    assert (array(loaded(rewards[:3])["reward"]) == 1).all()


def test_attention_feature_map() -> None:
    """ABCNN-1: the sentence and its map are two channels of one convolution."""
    tokens = [keras.Input((6,), dtype="int32") for _ in range(2)]
    embed = layers.Embedding(9, 4, mask_zero=True)
    make_sentences = [embed(x) for x in tokens]
    maps = AttentionFeatureMap(max_length=6)(*make_sentences)
    convolution = layers.Conv2D(5, (3, 4), activation="tanh")
    vectors = [
        ops.mean(convolution(ops.stack([x, extra], axis=-1)), axis=(1, 2))
        for x, extra in zip(make_sentences, maps, strict=True)
    ]
    match = layers.Dense(1, activation="sigmoid")(ops.multiply(*vectors))
    model = keras.Model(tokens, match)
    model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy")
    rng = np.random.default_rng(0)
    first = rng.integers(1, 9, size=(1280, 6))
    equal = np.arange(1280) % 2 == 0
    second = np.where(equal[:, None], first, rng.integers(1, 9, size=(1280, 6)))
    before = model.evaluate([first, second], equal, verbose=0)
    model.fit([first, second], equal, epochs=4, shuffle=False, verbose=0)
    assert model.evaluate([first, second], equal, verbose=0) < 0.5 * before


@pytest.mark.skipif(JAX, reason="exports need TensorFlow")
def test_crf_export(tmp_path: Path) -> None:
    model, _ = make_tagger(tag_scheme="BIO", tags=NAMES)
    words, _ = make_sentences(3)
    expected = array(model(words)["tags"])
    model.export(tmp_path / "saved", verbose=False)
    code = (
        "import sys, tensorflow as tf, json\n"
        "loaded = tf.saved_model.load(sys.argv[1])\n"
        "tags = loaded.serve(tf.constant(json.loads(sys.argv[2]), tf.int32))['tags']\n"
        "assert 'keras' not in sys.modules or 'attention_zoo' not in sys.modules\n"
        "print(tags.numpy().tolist())"
    )
    printed = in_fresh_process(code, tmp_path / "saved", str(words.tolist()))
    assert printed.strip() == str(expected.tolist())


def test_crf_in_mixed_precision() -> None:
    keras.config.set_dtype_policy("mixed_float16")
    words, tags = make_sentences(64)
    inputs = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(12, 8, mask_zero=True)(inputs)
    model = keras.Model(inputs, CRF()(keras.layers.Dense(4)(embedded)))
    model.compile(keras.optimizers.Adam(0.05), CRFLoss())
    history = model.fit(words, tags, 32, 6, shuffle=False, verbose=0).history["loss"]
    assert np.isfinite(history).all()
    assert history[-1] < history[0]
    assert keras.backend.standardize_dtype(model(words).dtype) == "float32"
