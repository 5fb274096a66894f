"""Soft attention, hard attention and mean pooling of an image."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest

from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.models import ShowAttendTell
from tests.layers.running import JAX, array, close, randomise
from tests.models.captioner_conformance import CaptionerConformance
from tests.models.generation_conformance import SOURCE, TARGET, make_images
from tests.refusals import refuses

SMALL = {
    "embedding_dim": 6,
    "units": 8,
    "attention_units": 7,
    "attention": {"kind": "soft", "doubly_stochastic": 0.02},
    "encoder": {"kind": "cnn", "filters": [4, 6]},
    "dropout": 0.0,
}
V = 12


class TestShowAttendTell(CaptionerConformance):
    covers = ShowAttendTell
    vocabulary = {"vocabulary_size": V}
    options = SMALL
    changed = {
        "vocabulary_size": 14,
        "embedding_dim": 4,
        "units": 6,
        "attention_units": 3,
        "attention": {
            "kind": "hard",
            "expected_rate": 0.25,
            "coefficient": 0.5,
            "entropy_bonus": 0.0,
        },
        "encoder": {"kind": "features", "width": 5},
        "dropout": 0.25,
        "word_dropout": 0.5,
    }

    def make_preset(self, preset: str) -> Any:
        model = ShowAttendTell.from_preset(preset, vocabulary_size=V, **SMALL)
        self.fill(model)
        return model

    def test_invalid_images_are_rejected(self) -> None:
        model = self.make()
        for shape in ((3, 6), (8, 8, 3), (2, 8, 8), (2, 8, 8, 1), (2, 8, 8, 4), (2, 0, 0, 3)):
            image = np.zeros(shape, "uint8")
            for call in (lambda x: model({"image": x, "target": TARGET[:2]}), model.search):
                with pytest.raises(ValueError, match=r"image .*shape"):
                    call(image)
        with pytest.raises(ValueError, match=r"^max_length_ratio: an image has no length"):
            model.search(make_images(SOURCE), max_length_ratio=2.0, max_length=3)
        with pytest.raises(ValueError, match=r"^max_length: an image has no length; give max_len"):
            model.search(make_images(SOURCE))


def make_model(kind: str = "soft", **options: Any) -> ShowAttendTell:
    """Return a tiny model with random weights."""
    model = ShowAttendTell(V, **{**SMALL, "attention": {"kind": kind, **options}})
    randomise(model, scale=0.4)
    return model


def test_readout_uses_dropout() -> None:
    model = ShowAttendTell(V, **{**SMALL, "dropout": 0.5})
    randomise(model)
    units, width = model.settings["units"], model.settings["embedding_dim"]
    channels = model.context_projection.kernel.shape[0]
    record = {"hidden": np.ones((4, 5, units)), "context": np.ones((4, 5, channels))}
    record = {name: keras.ops.convert_to_tensor(x.astype("float32")) for name, x in record.items()}
    embedded = keras.ops.ones((4, 5, width))
    for training in (False, True):
        hidden = array(model.readout(record, embedded, None, training))
        assert (hidden == 0).any() == training


def test_follows_the_equations_of_the_paper() -> None:
    """The loss of one caption in NumPy: equations 1 to 3, 7, 9, 13 and 14 in float64."""
    grid = np.random.default_rng(1).normal(size=(1, 2, 3, 5))
    options = {**SMALL, "encoder": {"kind": "features", "width": 5}}
    options["attention"] = {"kind": "soft", "doubly_stochastic": 0.7}
    model = ShowAttendTell(V, **options)
    randomise(model, scale=0.5)
    lstm = model.decoder.cell.cell

    def weight(end: str) -> np.ndarray:
        (result,) = [v for v in model.trainable_variables if v.path.endswith(end)]
        return array(result).astype("float64")

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    positions, mean = grid.reshape(6, 5), grid.reshape(6, 5).mean(0)
    h, c = (
        np.tanh(mean @ weight(f"bridge_kernel_{n}") + weight(f"bridge_bias_{n}")) for n in (0, 1)
    )
    target, labels, log_probability, total_attention = [2, 5, 7], [5, 7, 3], 0.0, np.zeros(6)
    embeddings = weight("embeddings")
    for token, label in zip(target, labels, strict=True):
        query = h @ weight("query_kernel") + positions @ weight("key_kernel")
        scores = np.tanh(query) @ weight("/v")
        alpha = np.exp(scores) / np.exp(scores).sum()
        beta = sigmoid(h @ weight("gate_kernel") + weight("gate_bias"))
        z = beta * (alpha @ positions)
        x = np.concatenate([embeddings[token], z])
        gates = x @ array(lstm.kernel) + h @ array(lstm.recurrent_kernel) + array(lstm.bias)
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        deep = (
            embeddings[token]
            + h @ array(model.state_projection.kernel)
            + array(model.state_projection.bias)
        )
        logits = np.tanh(deep + z @ array(model.context_projection.kernel)) @ array(
            model.vocabulary.kernel
        )
        log_probability += np.log(np.exp(logits).sum()) - logits[label]
        total_attention += alpha
    expected = (log_probability + 0.7 * np.square(1 - total_attention).sum()) / 3
    model.compile(loss=SequenceCrossEntropy())
    inputs = {"image": grid.astype("float32"), "target": np.array([target])}
    y_pred = model(inputs, training=True)
    got = model.compute_loss(inputs, np.array([labels]), y_pred)
    assert float(got) == pytest.approx(expected, rel=1e-5)


@pytest.mark.full
def test_hard_attention_selects_one_position() -> None:
    model = make_model("hard")
    result = model.compiled_search(make_images(SOURCE), max_length=4)
    attention_weights = np.asarray(result.attention)[np.asarray(result.tokens) != 0]
    assert set(np.unique(attention_weights)) == {0.0, 1.0}
    assert (attention_weights.sum(-1) == 1).all()


def test_reward_is_the_log_likelihood_of_the_caption() -> None:
    """The baseline moves by a tenth towards the mean log probability of a word of the captions."""
    model = make_model("hard", expected_rate=0.0, entropy_bonus=0.0)
    keras.utils.set_random_seed(1)
    inputs = {"image": make_images(SOURCE), "target": TARGET}
    logits = array(model(inputs, training=True))
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    labels = np.array([[4, 5, 6, 7, 3], [8, 9, 3, 0, 0], [3, 0, 0, 0, 0]])
    log_likelihood = np.take_along_axis(log_probs, labels[..., None], -1)[..., 0] * (labels != 0)
    of_a_word = log_likelihood.sum(1) / (labels != 0).sum(1)
    assert float(model.attention.reinforce.baseline) == pytest.approx(
        0.1 * of_a_word.mean(), rel=1e-4
    )


def test_hard_attention_adds_its_terms_to_the_loss() -> None:
    """In NumPy, with uniform attention: section 4.2 of the paper, with the entropy term."""
    rewarded, bonus, baseline, words = 0.5, 0.3, -1.5, 3
    attention = {"expected_rate": 0.0, "coefficient": rewarded, "entropy_bonus": bonus}
    model = make_model("hard", **attention)
    (scores,) = [v for v in model.trainable_variables if v.path.endswith("/v")]
    scores.assign(np.zeros(scores.shape))
    model.attention.reinforce.baseline.assign(baseline)
    target, labels = np.array([[2, 5, 6], [0, 0, 0]]), np.array([[5, 6, 3], [0, 0, 0]])
    logits = array(model({"image": make_images(SOURCE)[:2], "target": target}, training=True))[0]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    reward = log_probs[range(words), labels[0]].sum()
    chance = np.log(np.prod(model.grid_shape(make_images(SOURCE))))
    learnt = -rewarded * (reward - words * baseline) * -words * chance
    expected = (learnt - bonus * words * chance) / words
    assert float(sum(model.losses)) == pytest.approx(expected, rel=1e-4)
    shifted = 0.9 * baseline + 0.1 * reward / words
    assert float(model.attention.reinforce.baseline) == pytest.approx(shifted, rel=1e-4)


def test_expected_rate_is_the_fraction_of_soft_steps() -> None:
    model = make_model("hard", expected_rate=0.25)
    grid = np.random.default_rng(0).integers(0, 256, (400, 8, 8, 3), np.uint8)
    encoded = model.encode(grid, True)
    constants, state = model.prepare_decoder(encoded, 400, True)
    target = np.full((400, 2), 5)
    target[:, 0] = 2
    inputs = model.decoder_inputs(model.target_embedding(target), encoded)
    record = model.decoder.unroll(
        inputs, constants, state, target != 0, model.readout_fields, True
    )[0]
    peaks = array(record["weights"][0]).max(-1)
    soft = peaks < 1
    assert 0.17 < soft.mean() < 0.33
    assert (soft[:, 0] == soft[:, 1]).all(), "soft attention is sampled once per caption"


@pytest.mark.full
@pytest.mark.skipif(JAX, reason="a tape for each path is TensorFlow's")
def test_hard_attention_gradient_is_unbiased() -> None:
    """4 positions, 2 words: the mean over 16 forced paths is the gradient of the paper's L_s.

    The bound is on the log likelihood of the caption, its expectation over all paths.
    """
    tf = pytest.importorskip("tensorflow")
    options = {**SMALL, "encoder": {"kind": "features", "width": 3}}
    attention = {"kind": "hard", "expected_rate": 0.0, "coefficient": 1.0, "entropy_bonus": 0.0}
    model = ShowAttendTell(V, **{**options, "attention": attention})
    randomise(model, scale=0.7)
    grid = np.random.default_rng(0).normal(size=(1, 2, 2, 3)).astype("float32")
    target, labels = np.array([[2, 5]]), np.array([[5, 3]])
    model.compile(loss=SequenceCrossEntropy())
    alignment = model.decoder.cell.attentions[0].alignment
    weights = [v.value for v in model.trainable_variables]
    inputs = {"image": grid, "target": target}
    paths, log_chances, losses, gradients = list(itertools.product(range(4), repeat=2)), [], [], []
    with tf.GradientTape() as full, mock.patch.object(alignment, "sample_noise") as draw:
        for path in paths:
            noise = np.zeros((1, 2, 4), "float32")
            noise[0, range(2), path] = 1e4
            draw.return_value = tf.constant(noise)
            model.attention.reinforce.baseline.assign(0.37)
            with tf.GradientTape() as tape:
                loss = model.compute_loss(inputs, labels, model(inputs, training=True))
            gradients.append(tape.gradient(loss, weights, unconnected_gradients="zero"))
            encoded = model.encode(grid, True)
            constants, state = model.prepare_decoder(encoded, 1, True)
            read = model.decoder_inputs(model.target_embedding(target), encoded)
            record, state = model.decoder.unroll(
                read, constants, state, target != 0, model.readout_fields, True
            )
            log_chances.append(type(alignment).choice(state.alignments[0]).log_probability[0])
            log_probability = model.vocabulary(
                model.readout(record, model.target_embedding(target), encoded, True)
            )
            log_likelihood = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=log_probability
            )
            losses.append(tf.reduce_sum(log_likelihood))
        chances = tf.exp(tf.stack(log_chances))
        expected = tf.reduce_sum(chances * tf.stack(losses)) / 2
    assert float(tf.reduce_sum(chances)) == pytest.approx(1.0, abs=1e-5)
    for want, *got in zip(
        full.gradient(expected, weights, unconnected_gradients="zero"), *gradients, strict=True
    ):
        close(sum(p * g for p, g in zip(array(chances), map(array, got), strict=True)), want, 1e-5)


def test_empty_captions_are_excluded_from_means() -> None:
    for kind in ("soft", "hard"):
        model = make_model(kind)
        image, target = make_images(SOURCE)[[0, 1, 0, 0]], TARGET[[0, 1, 0, 0]]
        target[2:] = 0
        losses = []
        for rows in (2, 4):
            if kind == "hard":
                model.attention.reinforce.baseline.assign(0.0)
                model.decoder.cell.attentions[0].alignment.sample_noise = lambda shape, dtype: (
                    0.0 * (keras.ops.ones((*shape[:-1], shape[-1] + 1), dtype))
                )
            model({"image": image[:rows], "target": target[:rows]}, training=True)
            losses.append(float(sum(model.losses)))
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["soft", "hard", "pooled"])
def test_training_in_double_precision_and_on_several_sizes(kind: str) -> None:
    dtype = "float32" if JAX else "float64"  # which JAX disables by default
    model = ShowAttendTell(V, **{**SMALL, "attention": {"kind": kind}}, dtype=dtype)
    model.compile("sgd", SequenceCrossEntropy(), jit_compile=JAX)
    labels = np.array([[5, 6, 3], [7, 3, 0]])
    target = np.array([[2, 5, 6], [2, 7, 0]])
    for side in (8, 12, 10):
        image = np.random.default_rng(0).integers(0, 256, (2, side, side, 3), np.uint8)
        assert np.isfinite(model.train_on_batch({"image": image, "target": target}, labels))


@pytest.mark.full
def test_hard_attention_learns_to_attend() -> None:
    """One of four squares is bright; its colour is the word.

    Without attention to the bright square, at most 70 % of the words are correct.
    """
    rng = np.random.default_rng(0)
    bright_squares, colours = rng.integers(0, 4, 512), rng.integers(0, 4, (512, 4))
    colour = colours[range(512), bright_squares]
    grid = np.zeros((512, 2, 2, 6), "float32")
    positions = grid.reshape(512, 4, 6)
    positions[...] = np.eye(6, dtype="float32")[colours]
    positions[range(512), bright_squares, 5] = 1.0
    options = {**SMALL, "encoder": {"kind": "features", "width": 6}, "units": 16}
    attention = {"kind": "hard", "expected_rate": 0.5, "coefficient": 1.0, "entropy_bonus": 0.05}
    keras.utils.set_random_seed(2)
    model = ShowAttendTell(V, **{**options, "attention": attention})
    model.compile(keras.optimizers.Adam(0.01), SequenceCrossEntropy(), jit_compile=JAX)
    inputs = {"image": grid, "target": np.full((512, 1), 2)}
    model.fit(inputs, colour[:, None] + 4, batch_size=32, epochs=40, shuffle=False, verbose=0)
    result = model.compiled_search(grid, max_length=1)
    attention_weights = np.asarray(result.attention)[:, 0, 0].argmax(-1)
    assert (attention_weights == bright_squares).mean() > 0.4
    assert (np.asarray(result.tokens)[:, 0, 0] == colour + 4).mean() > 0.78


def test_word_dropout_acts_in_training() -> None:
    """With all words dropped, only the start token, image and caption length affect outputs."""
    model = ShowAttendTell(V, **{**SMALL, "word_dropout": 1.0})
    randomise(model, scale=0.4)
    image = make_images(SOURCE)[:1]
    one, other = (
        {"image": image, "target": np.array([words])} for words in ([2, 5, 6, 7], [2, 8, 9, 4])
    )
    close(array(model(one, training=True)), array(model(other, training=True)), 1e-6)
    difference = abs(array(model(one)) - array(model(other)))[0]
    assert difference[0].max() == 0
    assert difference[1:].max() > 0.01
    unknown = {**one, "target": np.array([[2, 1, 1, 1]])}
    close(array(model(one, training=True)), array(model(unknown)), 1e-6)


def test_mean_pooling_ignores_positions() -> None:
    """It has as many weights as the model with attention."""
    grid = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")
    options = {**SMALL, "encoder": {"kind": "features", "width": 5}}
    pooled = ShowAttendTell(V, **{**options, "attention": {"kind": "pooled"}})
    randomise(pooled, scale=0.4)
    shifted = grid[:, ::-1, ::-1]
    expected = pooled({"image": grid, "target": TARGET[:2]})
    close(pooled({"image": shifted, "target": TARGET[:2]}), expected, 1e-5)
    assert pooled.count_params() == ShowAttendTell(V, **options).count_params()
    assert pooled.grid_shape(grid) == (1, 1)


@refuses(
    ({"attention": {"kind": "sof"}}, "^unknown attention.kind 'sof'; did you mean 'soft'"),
    ({"attention": {"kind": "soft", "rate": 1}}, "^attention.kind='soft' has no option 'rate'"),
    ({"attention": {"doubly_stochastic": -1}}, "^doubly_stochastic must be at least 0, got -1"),
    ({"encoder": {"kind": "VGG-16"}}, "^encoder.kind 'VGG-16' is unknown; .* did you mean 'VGG16'"),
    ({"encoder": {"filter": [3]}}, "^encoder.kind='cnn' has no option 'filter'; did you mean"),
    (
        {"attention": "soft"},
        "^attention must be a dict of options, such as {name: value}, got 'soft'",
    ),
    ({"encoder": ["cnn"]}, r"^encoder must be a dict of options, .*, got \['cnn'\]"),
    ({"units": "a"}, "^units must be an integer of at least 1, got 'a'"),
    ({"dropout": "a"}, r"^dropout must be in \[0, 1\), got 'a'"),
    ({"attention_units": 0}, "^attention_units must be at least 1, got 0"),
    ({"encoder": {"filters": []}}, "^filters is empty; give a width for each stage"),
)
def test_invalid_options_are_rejected(options: dict[str, Any]) -> None:
    ShowAttendTell(V, **{**SMALL, **options})
