"""`AttentionCallback` logs attention, and changes nothing of the training."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attention_zoo import layers
from attention_zoo.inspection.attention_callback import AttentionCallback
from attention_zoo.inspection.head_statistics import attention_entropy, diagonality
from attention_zoo.inspection.record import record

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 5, 8)).astype("float32")
Y = RNG.normal(size=(12, 5, 8)).astype("float32")
RATE = 1e-2


class NoisyInInference(keras.layers.Layer):
    """Dropout that is active in inference too, and a counter of forward passes."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = keras.layers.Dropout(0.5, seed=3)
        self.calls = self.add_weight(shape=(), dtype="int32", trainable=False)

    def call(self, inputs: Any) -> Any:
        self.calls.assign_add(1)
        return self.drop(inputs, training=True)


def make_model(
    *extra: keras.layers.Layer, eagerly: bool = True, additive: bool = True
) -> keras.Model:
    keras.utils.set_random_seed(1)
    x = keras.Input((None, 8))
    y = keras.layers.MultiHeadAttention(2, 4, dropout=0.3, name="heads")(x, x)
    y = layers.AdditiveAttention(6, name="additive")(y, x) if additive else y
    for layer in extra:
        y = layer(y)
    model = keras.Model(x, y)
    model.compile(
        keras.optimizers.SGD(RATE, momentum=0.9), "mse", run_eagerly=eagerly, jit_compile=False
    )
    return model


def fit(model: keras.Model, *callbacks: Any, **options: Any) -> None:
    options = {"epochs": 2, "batch_size": 4, **options}
    model.fit(X[:8], Y[:8], verbose=0, callbacks=list(callbacks), **options)


def read(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return events


def curve(folder: Path, name: str) -> list[tuple[int, float]]:
    points = read(folder).Tensors(name)
    return [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in points]


def images(folder: Path, name: str) -> list[list[np.ndarray]]:
    content = [tf.make_ndarray(event.tensor_proto)[2:] for event in read(folder).Tensors(name)]
    return [[np.asarray(Image.open(io.BytesIO(png))) for png in pngs] for pngs in content]


def test_statistics_of_each_epoch(tmp_path: Path) -> None:
    """A second call of `fit` writes a second file."""
    model, expected = make_model(), []
    for epochs in ([0, 1], [1]):
        callback = AttentionCallback(tmp_path, X[:3])
        callback.set_model(model)
        callback.on_train_begin()
        for epoch in epochs:
            callback.on_epoch_end(epoch)
            with record(model) as weights:
                model(X[:3])
            expected.append((epoch, {path: calls[0].weights for path, calls in weights.items()}))
            model.get_layer("heads")._query_dense.kernel.assign_add(np.ones((8, 2, 4)))
        callback.on_train_end()
    for path, shape in (("heads", (3, 2, 5, 5)), ("additive", (3, 1, 5, 5))):
        assert expected[0][1][path].shape == shape
        for name, statistic in (("entropy", attention_entropy), ("diagonality", diagonality)):
            points = curve(tmp_path, f"attention_{name}/{path}")
            assert [step for step, _ in points] == [0, 1, 1]
            values = [statistic(weights[path]).mean() for _, weights in expected]
            np.testing.assert_allclose([value for _, value in points], values, 1e-6)
            assert len({value for _, value in points}) == 3


def test_maps_of_the_first_example(tmp_path: Path) -> None:
    """Pixels are proportional to the weights; white is the largest weight of each map."""
    model = make_model()
    callback = AttentionCallback(tmp_path, X[:3], layers=["heads"], max_maps=8)
    callback.set_model(model)
    callback.write(4)
    callback.on_train_end()
    with record(model) as recorded:
        model(X[:3])
    weights = recorded["heads"][0].weights[0]
    ((one, other),) = images(tmp_path, "attention_map/heads")
    scale = len(one) // 5
    assert one.shape == (5 * scale, 5 * scale)
    assert len(one) >= 128
    for pixels, head in zip((one, other), weights, strict=True):
        np.testing.assert_allclose(pixels[::scale, ::scale] / 255, head / head.max(), atol=2e-3)
    assert "attention_map/additive" not in read(tmp_path).Tags()["tensors"]


@pytest.mark.parametrize(
    "eagerly", [True, pytest.param(False, marks=pytest.mark.full)], ids=["eager", "graph"]
)
def test_training_is_bit_equal(tmp_path: Path, eagerly: bool) -> None:
    """With dropout in training and in inference, moving means and a counter."""
    results = []
    for callbacks in ([], [AttentionCallback(tmp_path, X[:3], every=1, max_maps=0)]):
        noisy = NoisyInInference()
        norm = keras.layers.BatchNormalization()
        model = make_model(norm, noisy, eagerly=eagerly, additive=False)
        fit(model, *callbacks, epochs=1)
        results.append([*model.variables, *model.optimizer.variables, noisy.calls])
    assert len(curve(tmp_path, "attention_entropy/heads")) == 2
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(other.numpy(), one.numpy(), err_msg=one.path)


def test_masked_positions_are_not_drawn_and_do_not_count(tmp_path: Path) -> None:
    ids = np.array([[3, 4, 5, 0, 0, 0], [3, 4, 5, 6, 7, 8]])
    x = keras.Input((None,), dtype="int32")
    y = keras.layers.Embedding(9, 8, mask_zero=True)(x)
    model = keras.Model(x, layers.AdditiveAttention(6, name="attention")(y, y))
    padded = {}
    for name, rows in (("padded", ids[:1]), ("short", ids[:1, :3])):
        callback = AttentionCallback(tmp_path / name, rows)
        callback.set_model(model)
        callback.write(0)
        callback.on_train_end()
        padded[name] = {
            tag: curve(tmp_path / name, f"attention_{tag}/attention")[0][1]
            for tag in ("entropy", "diagonality")
        }
    assert padded["padded"] == pytest.approx(padded["short"], abs=1e-6)
    ((one,),), ((other,),) = (images(tmp_path / n, "attention_map/attention") for n in padded)
    np.testing.assert_allclose(one.astype(int), other.astype(int), atol=1)


def test_every_number_of_batches(tmp_path: Path) -> None:
    """The count goes on over epochs, and an execution may consist of several batches."""
    callback = AttentionCallback(tmp_path, X[:1], layers=["heads"], every=2, max_maps=0)
    callback.set_model(make_model(additive=False))
    callback.on_train_begin()
    for last_batches in ([0, 1, 2], [0, 1, 2], [4]):
        callback.on_epoch_begin(0)
        for batch in last_batches:
            callback.on_train_batch_end(batch)
        callback.on_epoch_end(0)
    callback.on_train_end()
    assert [step for step, _ in curve(tmp_path, "attention_entropy/heads")] == [2, 4, 6, 11]


def test_steps_of_a_decoder_are_one_map(tmp_path: Path) -> None:
    class Decoder(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.attention = keras.layers.Attention()

        def call(self, inputs: Any) -> Any:
            steps = [self.attention([inputs[:, t : t + 1], inputs]) for t in range(4)]
            return keras.ops.concatenate(steps, axis=1)

    model = Decoder()
    callback = AttentionCallback(tmp_path, X[:2])
    callback.set_model(model)
    callback.write(0)
    callback.on_train_end()
    scores = X[:2, :4] @ X[:2].transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = (weights / weights.sum(-1, keepdims=True))[:, None]
    ((_, entropy),) = curve(tmp_path, "attention_entropy/attention")
    assert entropy == pytest.approx(attention_entropy(weights).mean(), rel=1e-4)
    ((_, diagonal),) = curve(tmp_path, "attention_diagonality/attention")
    assert diagonal == pytest.approx(diagonality(weights).mean(), rel=1e-4)
    ((image,),) = images(tmp_path, "attention_map/attention")
    assert image.shape[0] / image.shape[1] == 4 / 5


def test_weights_that_are_not_finite_do_not_end_training(tmp_path: Path) -> None:
    model = make_model()
    model.get_layer("heads")._query_dense.kernel.assign(np.full((8, 2, 4), math.nan))
    callback = AttentionCallback(tmp_path, X[:1])
    callback.set_model(model)
    callback.write(0)
    callback.on_train_end()
    ((_, entropy),) = curve(tmp_path, "attention_entropy/heads")
    assert math.isnan(entropy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": "batch"}, r'every must be "epoch" or a number of batches, got \'batch\''),
        ({"every": 0}, "every must be at least 1, got 0"),
        ({"max_maps": -1}, "max_maps must be at least 0, got -1"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionCallback(tmp_path, X, **options)


def test_models_without_matching_attention_are_rejected_before_training(tmp_path: Path) -> None:
    model = make_model()
    with pytest.raises(ValueError, match=r"layers: no attention layer matches 'other'"):
        fit(model, AttentionCallback(tmp_path / "log", X, layers=["other"]))
    assert int(model.optimizer.iterations) == 0
    assert not (tmp_path / "log").exists()


def test_scores_that_are_negative_do_not_end_the_training(tmp_path: Path) -> None:
    x = keras.Input((4, 8))
    layer = layers.AttentionFeatureMap(4, score="dot")
    first, second = layer(x, -1.0 * x)
    model = keras.Model(x, first + second)
    model.compile("sgd", "mse", run_eagerly=True)
    data = np.ones((2, 4, 8), "float32")
    model.fit(data, data, verbose=0, callbacks=[AttentionCallback(tmp_path, data)])
    assert any(tmp_path.iterdir())
