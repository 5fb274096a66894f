from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.losses import GlimpseLoss
from attention_zoo.models import RecurrentAttentionModel
from tests.layers.running import (
    JAX,
    MODES,
    any_batch,
    array,
    close,
    compiled,
    differentiable,
    randomise,
    same,
)
from tests.models.model_conformance import (
    ExportableModelConformance,
    assert_every_weight_changes,
    make_training_steps,
)
from tests.refusals import refuses
from tests.tiers import FULL

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (4, 7, 6, 2)).astype("uint8")
LABELS = np.array([0, 2, 1, 1])
WALKS = 100_000


class TestRecurrentAttentionModel(ExportableModelConformance):
    covers = RecurrentAttentionModel
    options = {
        "image_shape": [7, 6, 2],
        "classes": 3,
        "glimpse_size": 3,
        "glimpse_scales": 2,
        "glimpses": 3,
        "glimpse_units": 5,
        "units": 6,
        "location_std": 0.2,
        "seed": 1,
    }
    changed = {
        "image_shape": [9, 9, 1],
        "classes": 4,
        "glimpse_size": 2,
        "glimpse_scales": 3,
        "glimpses": 2,
        "glimpse_units": 7,
        "units": 8,
        "location_std": 0.5,
        "seed": None,
    }

    def inputs(self) -> np.ndarray:
        return IMAGES

    def training_examples(self, model: Any) -> tuple[Any, Any, Any]:
        return IMAGES, LABELS, model.make_loss()

    # paths

    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_compiled_glimpse_path_equals_eager(self, mode: str) -> None:
        model = self.make_random()
        for got, expected in zip(
            compiled(model.glimpse_path, mode)(IMAGES), model.glimpse_path(IMAGES), strict=True
        ):
            close(got, expected, 1e-5)

    @pytest.mark.every_backend
    @pytest.mark.parametrize("policy", ["float16", "mixed_bfloat16"])
    def test_half_precision(self, policy: str) -> None:
        model = self.with_policy(policy)
        for training in (False, True):
            outputs = model(IMAGES, training=training)
            logits = outputs["logits"] if training else outputs
            half = keras.dtype_policies.get(policy).compute_dtype
            assert keras.backend.standardize_dtype(logits.dtype) == half
            assert all(np.isfinite(array(x)).all() for x in keras.tree.flatten(outputs))
        assert keras.backend.standardize_dtype(outputs["log_probabilities"].dtype) == "float32"

    def test_small_sizes(self) -> None:
        """Batches of size 0 and 1 with an unknown batch size; also in training."""
        model = self.make_random()
        expected = array(model(IMAGES))

        def run(x: Any) -> Any:
            return model(x), *model.glimpse_path(x), *model(x, training=True).values()

        run = any_batch(run) if FULL else run
        for rows in (slice(0), slice(1, 2)) if FULL else (slice(1, 2),):
            logits, *others = run(IMAGES[rows])
            close(logits, expected[rows], 1e-5)
            assert {x.shape[0] for x in others} == {len(expected[rows])}

    def test_float_images_equal_byte_images(self) -> None:
        model = self.make_random()
        same(model(IMAGES.astype("float32")), model(IMAGES))

    # predictions

    @pytest.mark.every_backend
    def test_oracle(self) -> None:
        """Compute each step; the path is that of the prediction."""
        model = self.make_random()
        names = ("locator", "patch_encoder", "location_encoder", "glimpse", "core", "classifier")
        kernels = {name: [array(x) for x in getattr(model, name).weights] for name in names}

        def dense(name: str, *x: np.ndarray) -> np.ndarray:
            return np.concatenate(x, -1) @ kernels[name][0] + kernels[name][1]

        path = [array(x) for x in model.glimpse_path(IMAGES)]
        state = np.zeros((4, 6))
        for t in range(3):
            location = np.tanh(dense("locator", state))
            close(path[0][:, t], location, 1e-5)
            patches = array(model.sensor(IMAGES / np.float32(255), location.astype("float32")))
            close(path[1][:, t], patches, 1e-5)
            what = np.maximum(dense("patch_encoder", patches.reshape(4, -1)), 0)
            where = np.maximum(dense("location_encoder", location), 0)
            glimpse = np.maximum(dense("glimpse", what, where), 0)
            state = np.maximum(dense("core", state, glimpse), 0)
            close(path[2][:, t], dense("classifier", state), 1e-5)
        close(path[2][:, -1], model(IMAGES), 1e-6)
        assert np.ptp(path[0], axis=1).min() > 0.01, "all glimpses are at one location"

    def test_samples_depend_on_the_seed(self) -> None:
        models = [self.make_random(seed=seed) for seed in (1, 1, 2)]
        samples = [array(model(IMAGES, training=True)["log_probabilities"]) for model in models]
        same(samples[0], samples[1])
        assert np.abs(samples[0] - samples[2]).min() > 0
        repeated = array(models[0](IMAGES, training=True)["log_probabilities"])
        assert np.abs(repeated - samples[0]).min() > 0
        same(models[0](IMAGES), models[2](IMAGES))

    @pytest.mark.every_backend
    def test_vote_averages_probabilities_over_noisy_paths(self) -> None:
        model = self.make_random(location_std=0.3)
        votes = array(model.vote(IMAGES, 3))
        probabilities = np.exp(votes)
        np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-5)
        close(model.vote(IMAGES[1:2], 3), votes[1:2], 1e-5)
        noise = [array(x) for x in model._make_fixed_noise(3)]
        paths = [
            model._take_glimpses(IMAGES, x[None].astype("float32")).states[:, -1] for x in noise
        ]
        logits = np.stack([array(model.classifier(state)) for state in paths])
        per_path = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        close(probabilities, per_path.mean(0), 1e-5)
        assert np.ptp(per_path, axis=0).max() > 0.01
        deterministic = np.exp(array(model(IMAGES)))
        steady = np.exp(array(self.make_random(location_std=1e-6).vote(IMAGES, 2)))
        close(steady, deterministic / deterministic.sum(-1, keepdims=True), 1e-4)
        with pytest.raises(ValueError, match="paths must be at least 1, got 0"):
            model.vote(IMAGES, 0)

    def test_location_noise_has_the_given_std(self) -> None:
        noise = array(ops.stack(self.make(location_std=0.3)._make_fixed_noise(2000))).reshape(-1, 2)
        np.testing.assert_allclose(noise.mean(0), 0, atol=0.02)
        np.testing.assert_allclose(np.cov(noise.T), 0.09 * np.eye(2), atol=0.006)

    # gradients

    @pytest.mark.every_backend
    def test_gradients_stop_as_in_the_paper(self) -> None:
        model = self.make_random()
        run = differentiable(model, lambda x: model(x, training=True))
        for name, layers in (
            ("logits", {"patch_encoder", "location_encoder", "glimpse", "core", "classifier"}),
            ("log_probabilities", {"locator"}),
            ("baselines", {"baseline"}),
        ):
            run = differentiable(model, lambda x, name=name: model(x, training=True)[name])
            trained = {getattr(model, layer).name for layer in layers}
            _, _, gradients = run(IMAGES)
            for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
                assert gradient.any() == (weight.path.split("/")[-2] in trained), weight.path


@pytest.mark.parametrize(
    ("name", "side", "pixels", "glimpses"),
    [
        ("ram_mnist", 28, 8 * 8, 6),
        ("ram_translated", 60, 3 * 12 * 12, 8),
        ("ram_cluttered", 100, 4 * 12 * 12, 6),
    ],
)
def test_parameter_counts_follow_the_papers(
    name: str, side: int, pixels: int, glimpses: int
) -> None:
    """By hand: patch and location encoder, glimpse, core, locator, classifier and baseline."""
    model = RecurrentAttentionModel.from_preset(name, image_shape=(side, side, 1), classes=10)
    sizes = [(pixels, 128), (2, 128), (256, 256), (512, 256), (256, 2), (256, 10)]
    sizes.append((256, glimpses))
    assert model.count_params() == sum((rows + 1) * columns for rows, columns in sizes)


def make_images_with_sign(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images with the class at the right edge and misleading values elsewhere."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, count)
    images = rng.integers(0, 2, (count, 6, 12, 1)) * 255
    images[:, 1:5, 9:12] = 255 * labels[:, None, None, None]
    return images.astype("uint8"), labels


@pytest.mark.full
@pytest.mark.every_backend
def test_learns_where_to_attend_with_fit() -> None:
    """One glimpse: the centre is uninformative, and only rewards move the location."""
    images, labels = make_images_with_sign(640)
    model = RecurrentAttentionModel((6, 12, 1), 2, 3, 1, 1, 8, 16, location_std=0.4, seed=1)
    model.compile(keras.optimizers.Adam(0.02), model.make_loss(), metrics=["accuracy"])
    keras.utils.set_random_seed(1)
    model.fit(images, labels, batch_size=32, epochs=15, verbose=0)
    loss, accuracy = model.evaluate(images, labels, batch_size=128, verbose=0)
    assert accuracy > 0.95
    assert loss < 0.3
    across = array(model.glimpse_path(images[:1]).locations)[0, 0, 1]
    assert across > 0.5


@pytest.mark.full
@pytest.mark.skipif(JAX, reason="the shared loop is TensorFlow's")
@pytest.mark.parametrize("jit", [False, True], ids=["graph", "XLA"])
def test_trains_in_the_shared_training_loop(jit: bool) -> None:
    """With almost no noise at the first step, the loss equals that of inference."""
    images, labels = make_images_with_sign(64)
    model = RecurrentAttentionModel((6, 12, 1), 2, 3, 1, 2, 8, 16, location_std=1e-4, seed=1)
    steps, batches = make_training_steps(model, images, labels, jit=jit)
    tested = steps.test(batches)
    with assert_every_weight_changes(model):
        outcome = steps.train(batches)
    assert (outcome.count, outcome.code) == (64, 0)
    assert outcome.loss == pytest.approx(tested.loss, rel=1e-3)


def test_sampled_gradient_estimates_gradient_of_expected_reward() -> None:
    """Within 3 standard errors of an integral over all locations, clipped ones included."""
    std, baseline, label = 0.5, 0.3, 1
    model = RecurrentAttentionModel((5, 5, 1), 3, 2, 1, 1, 4, 6, location_std=std, seed=1)
    randomise(model, seed=2, scale=1.0)
    image = np.random.default_rng(3).integers(0, 256, (1, 5, 5, 1)).astype("uint8")
    middle = np.array([0.4, -0.7], "float32")
    model.locator.bias.assign(np.arctanh(middle))
    model.baseline.bias.assign([baseline])

    def reward(locations: np.ndarray) -> np.ndarray:
        at = ops.convert_to_tensor(locations.clip(-1, 1).astype("float32"))
        patches = model.sensor(np.repeat(image / np.float32(255), len(locations), 0), at)
        empty = ops.zeros((len(locations), 6))
        state = model.core(ops.concatenate([empty, model._encode_glimpse(patches, at)], -1))
        return array(model.classifier(state)).argmax(-1) == label

    steps = (np.arange(400) + 0.5) / 400 * 10 - 5
    off = np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2)
    share = np.exp(-0.5 * (off**2).sum(-1))[:, None]
    share /= share.sum()
    won = reward(middle + std * off)[:, None]
    assert 0.1 < (share * won).sum() < 0.9
    per_path = -(won - baseline) * off / std * (1 - middle.astype("float64") ** 2)
    expected = (share * per_path).sum(0)
    error = np.sqrt(((share * per_path**2).sum(0) - expected**2) / WALKS)

    loss = GlimpseLoss()
    images, labels = np.repeat(image, WALKS, 0), np.full(WALKS, label)
    run = differentiable(model, lambda x: loss(labels, model(x, training=True)) / math.cos(1))
    gradients = dict(zip(map(id, model.trainable_variables), run(images)[2], strict=True))
    got = gradients[id(model.locator.bias)]
    assert (np.abs(got - expected) <= 3 * error + 1e-3).all()
    assert np.abs(expected).max() > 30 * error.max()


SHAPE = r"image_shape must be \(height, width, channels\)"


@refuses(
    ({"image_shape": (28, 28)}, SHAPE),
    ({"image_shape": "28x28"}, SHAPE),
    ({"image_shape": 28}, SHAPE),
    ({"image_shape": (28, 28, 1, 1)}, SHAPE),
    ({"image_shape": (28, 0, 1)}, "image_shape's width must be at least 1, got 0"),
    ({"location_std": 0}, "location_std must be above 0"),
    ({"location_std": -1.0}, "location_std must be above 0"),
    ({"location_std": float("nan")}, "location_std must be above 0"),
    ({"location_std": "wide"}, "location_std must be above 0"),
)
def test_invalid_options_are_rejected(options: dict[str, Any]) -> None:
    TestRecurrentAttentionModel().make(**options)


def test_invalid_arguments_are_rejected() -> None:
    model = TestRecurrentAttentionModel().make()
    with pytest.raises(ValueError, match=r"images must be \(batch, 7, 6, 2\), got shape"):
        model(IMAGES[..., :1])
    model.compile("adam", "sparse_categorical_crossentropy")
    with pytest.raises(ValueError, match=r"must be a losses.GlimpseLoss, .*model.make_loss\(\)"):
        model.train_on_batch(IMAGES, LABELS)


def test_loss_includes_layer_losses() -> None:
    model = TestRecurrentAttentionModel().make_random()
    model.compile(loss=model.make_loss())
    labels, outputs = np.zeros(len(IMAGES), "int32"), model(IMAGES, training=True)
    model.add_loss(keras.ops.convert_to_tensor(100.0))
    expected = 100 + float(array(model.loss(labels, outputs)))
    assert float(array(model.compute_loss(IMAGES, labels, outputs))) == pytest.approx(expected)


@pytest.mark.full
def test_added_losses_are_trained() -> None:
    class RegularizedModel(RecurrentAttentionModel):
        def call(self, images: Any, training: bool | None = None) -> Any:
            self.add_loss(keras.ops.convert_to_tensor(100.0))
            return super().call(images, training=training)

    model = RegularizedModel((8, 8, 1), 3, 3, glimpses=2, glimpse_units=4, units=5)
    model.compile("sgd", model.make_loss(), jit_compile=JAX)
    images, labels = np.zeros((2, 8, 8, 1), "uint8"), np.array([0, 1])
    assert model.train_on_batch(images, labels) > 100
    assert model.test_on_batch(images, labels) > 100
