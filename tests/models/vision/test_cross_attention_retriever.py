from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import attention_zoo as az
from attention_zoo.models import CrossAttentionRetriever
from attention_zoo.models.vision import cross_attention_retriever
from attention_zoo.models.vision.cross_attention_retriever import EncodedTexts
from tests.layers.running import (
    JAX,
    any_batch,
    array,
    close,
    differentiable,
    needs_dynamic_shapes,
    with_dynamic_shapes,
)
from tests.models.model_conformance import (
    ExportableModelConformance,
    assert_finite_and_nonzero,
    make_training_steps,
)
from tests.refusals import refuses
from tests.tiers import FULL

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (3, 8, 12, 3)).astype("uint8")
TEXTS = np.array([[4, 5, 6, 7], [9, 8, 0, 0], [5, 0, 0, 0]], "int32")


class TestCrossAttentionRetriever(ExportableModelConformance):
    covers = CrossAttentionRetriever
    options = {
        "vocabulary_size": 11,
        "embedding_dim": 5,
        "units": 6,
        "encoder": {"filters": [4, 5]},
    }
    changed = {
        "vocabulary_size": 12,
        "embedding_dim": 6,
        "units": 4,
        "encoder": {"kind": "features", "width": 3},
        "direction": "image_to_text",
        "inverse_temperature": 4.0,
        "pooling": "log_sum_exp",
        "pooling_sharpness": 5.0,
        "dropout": 0.5,
        "ranking": {"margin": 0.1, "sharpness": 5.0},
    }
    together = {"pooling_sharpness": {"pooling": "log_sum_exp"}}

    def inputs(self) -> dict[str, np.ndarray]:
        return {"image": IMAGES, "text": TEXTS}

    def training_examples(self, model: Any) -> tuple[Any, Any, Any]:
        return self.inputs(), np.arange(len(TEXTS)), model.make_loss()

    def behaviour(self, model: Any, training: bool) -> list[np.ndarray]:
        """Return similarities and their loss."""
        (similarities,) = super().behaviour(model, training)
        return [similarities, array(model.make_loss()(np.arange(3), similarities))]

    def compute_similarities(
        self, model: Any, image: np.ndarray = IMAGES, text: np.ndarray = TEXTS
    ) -> np.ndarray:
        return array(model({"image": image, "text": text}))

    # similarities

    @pytest.mark.every_backend
    @pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
    def test_oracle(self, direction: str) -> None:
        """Compute each pair from the weights."""
        model = self.make_random(direction=direction)
        kernel, bias = (array(x) for x in model.input_projection.weights)
        grid = array(model.encoder(ops.convert_to_tensor(IMAGES))).reshape(3, 6, 5)
        regions = grid @ kernel + bias
        regions /= np.linalg.norm(regions, axis=-1, keepdims=True)
        close(model.encode_images(IMAGES), regions, 1e-5)
        got = self.compute_similarities(model)
        for row, length in enumerate((4, 2, 1)):
            both = array(model.text_encoder(model.embedding(TEXTS[row : row + 1, :length]))[0])
            words = (both[..., :6] + both[..., 6:]) / 2
            words /= np.linalg.norm(words, axis=-1, keepdims=True)
            for image in range(3):
                pair = model.matching(
                    words.astype("float32"), regions[image][None].astype("float32")
                )
                assert got[image, row] == pytest.approx(float(array(pair[1])[0]), abs=1e-5)
        assert got.std() > 1e-3

    def test_padding_and_batch_do_not_affect_results(self) -> None:
        model = self.make_random()
        expected = self.compute_similarities(model)
        padded = np.concatenate([TEXTS, np.zeros((3, 9), "int32")], 1)
        close(self.compute_similarities(model, text=padded), expected, 1e-5)
        close(
            self.compute_similarities(model, IMAGES[1:2], TEXTS[1:2, :2]), expected[1:2, 1:2], 1e-5
        )
        nothing = np.where(np.arange(3)[:, None] == 1, 0, TEXTS)
        assert not self.compute_similarities(model, text=nothing)[:, 1].any()

    def test_blocks_equal_a_single_pass(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = self.make_random()
        encoded = model.encode_images(IMAGES), model.encode_texts(TEXTS[:2])
        full = array(model.similarities(*encoded))
        close(full, self.compute_similarities(model)[:, :2], 1e-6)
        monkeypatch.setattr(cross_attention_retriever, "MAX_BLOCK_WEIGHTS", 6 * 4)
        close(model.similarities(*encoded), full, 1e-6)
        none = model.encode_images(IMAGES[:0])
        assert model.similarities(none, encoded[1]).shape == (0, 2)

    @needs_dynamic_shapes
    def test_similarities_with_dynamic_shapes(self) -> None:
        model = self.make_random()
        images, (words, mask) = model.encode_images(IMAGES), model.encode_texts(TEXTS[:2])

        def run(images: Any, words: Any, mask: Any) -> Any:
            return model.similarities(images, EncodedTexts(words, mask))

        specs = [((None, None, x.shape[-1]), x.dtype) for x in (images, words)]
        graph = with_dynamic_shapes(run, *specs, ((None, None), "bool"))
        close(graph(images, words, mask), model.similarities(images, (words, mask)), 1e-6)

    @pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
    def test_attention_weights(self, direction: str) -> None:
        """Over all positions for each word, or over all words for each position."""
        model = self.make_random(direction=direction)
        weights = array(model.attention_weights(IMAGES, TEXTS))
        assert weights.shape == (3, 4, 2, 3)
        assert model.grid_shape(IMAGES) == (2, 3)
        valid = TEXTS != 0
        assert not weights[~valid].any()
        over = weights.sum((2, 3))[valid] if direction == "text_to_image" else weights.sum(1)
        close(over, np.ones_like(over), 1e-5)

    def test_float_images_equal_byte_images(self) -> None:
        model = self.make_random()
        close(
            self.compute_similarities(model, IMAGES.astype("float32")),
            self.compute_similarities(model),
            1e-6,
        )

    # paths

    @pytest.mark.every_backend
    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_half_precision(self, policy: str) -> None:
        model = self.with_policy(policy)
        similarities = model({"image": IMAGES, "text": TEXTS}, training=True)
        assert keras.backend.standardize_dtype(similarities.dtype) == "float32"
        assert np.isfinite(array(similarities)).all()
        assert np.isfinite(array(model.attention_weights(IMAGES, TEXTS))).all()

    def test_small_sizes(self) -> None:
        """Batches of size 0 and 1 with an unknown batch size."""
        model = self.make_random()

        def run(x: Any, t: Any) -> Any:
            return model({"image": x, "text": t})

        if FULL:
            run = any_batch(run)
            assert array(run(IMAGES[:0], TEXTS[:0])).shape == (0, 0)
        close(run(IMAGES[:1], TEXTS[:1]), self.compute_similarities(model)[:1, :1], 1e-5)

    @pytest.mark.every_backend
    def test_gradients_are_finite_and_reach_every_weight(self) -> None:
        """Also for a text of padding only and an image of one colour."""
        model = self.make_random()
        image, text = IMAGES.copy(), TEXTS.copy()
        image[1], text[2] = 0, 0
        loss = model.make_loss()
        run = differentiable(
            model, lambda t: loss(np.array([1, 2, 3]), model({"image": image, "text": t}))
        )
        cost, _, gradients = run(text)
        assert np.isfinite(cost)
        assert_finite_and_nonzero(model, gradients)


def test_presets() -> None:
    for name, units in (("base", 1024), ("small", 128)):
        preset = f"cross_attention_retriever_{name}"
        assert az.models.preset_config(preset)["units"] == units
    narrow = {"vocabulary_size": 9, "units": 4, "encoder": {"kind": "features", "width": 3}}
    model = CrossAttentionRetriever.from_preset("cross_attention_retriever_base", **narrow)
    assert model.settings["embedding_dim"] == 300
    assert model.settings["inverse_temperature"] == 9.0
    assert model.make_loss().sharpness is None


def make_square_images(count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return images of two coloured squares, and texts that name them from left to right."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 4, (count, 2))
    colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]])
    images = np.zeros((count, 4, 8, 3), "uint8")
    for side in range(2):
        images[:, 1:3, 4 * side + 1 : 4 * side + 3] = colours[pairs[:, side], None, None]
    return {"image": images, "text": (4 + pairs).astype("int32")}, 4 * pairs[:, 0] + pairs[:, 1]


@pytest.mark.full
def test_learns_with_fit() -> None:
    """Equal images have the same number and the same text."""
    inputs, numbers = make_square_images(320)
    keras.utils.set_random_seed(1)
    ranking = {"sharpness": 20.0}
    model = CrossAttentionRetriever(9, 8, 16, {"filters": [8, 16]}, ranking=ranking)
    model.compile(keras.optimizers.Adam(0.01), model.make_loss())
    history = model.fit(inputs, numbers, batch_size=32, epochs=12, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]
    _, first = np.unique(numbers, return_index=True)
    similarities = array(model({name: x[first] for name, x in inputs.items()}))
    assert (similarities.argmax(0) == np.arange(len(first))).mean() > 0.8


@pytest.mark.full
@pytest.mark.skipif(JAX, reason="the shared loop is TensorFlow's")
def test_trains_in_the_shared_training_loop() -> None:
    inputs, numbers = make_square_images(16)
    model = CrossAttentionRetriever(9, 8, 16, {"filters": [8]})
    steps, batches = make_training_steps(model, inputs, numbers)
    expected = 16 * float(model.loss(numbers, model(inputs)))
    outcome = steps.train(batches)
    assert (outcome.count, outcome.code) == (16, 0)
    assert outcome.loss == pytest.approx(expected, rel=1e-4)


@refuses(
    ({"vocabulary_size": 4}, r"vocabulary_size must be at least 5 \(4 special .*, got 4"),
    ({"units": 0}, "units must be at least 1, got 0"),
    ({"direction": "text"}, "direction must be one of text_to_image, image_to_text"),
    ({"ranking": {"margin": -1.0}}, "margin must be at least 0 and finite, got -1.0"),
    ({"ranking": {"margins": 0.1}}, "HardestNegatives has no argument 'margins'.*'margin'"),
    ({"encoder": {"kind": "cn"}}, "encoder.kind 'cn' is unknown"),
)
def test_invalid_options_are_rejected(options: dict[str, Any]) -> None:
    TestCrossAttentionRetriever().make(**options)


def test_invalid_inputs_are_rejected() -> None:
    model = TestCrossAttentionRetriever().make()
    with pytest.raises(ValueError, match=r"image must be \(batch, height, width, 3\), got shape"):
        model({"image": IMAGES[0], "text": TEXTS})
    with pytest.raises(ValueError, match=r"text must be \(batch, tokens\), got shape"):
        model({"image": IMAGES, "text": TEXTS[0]})


@pytest.mark.full
@pytest.mark.skipif(JAX, reason="sides that are not known are TensorFlow's")
def test_attention_weights_in_a_graph_of_unknown_image_size() -> None:
    tf = pytest.importorskip("tensorflow")
    model = CrossAttentionRetriever(12, 4, 6, encoder={"filters": [4, 5]})
    image = np.random.default_rng(0).integers(0, 256, (2, 12, 8, 3), np.uint8)
    text = np.array([[5, 6, 7], [8, 9, 0]])
    spec = tf.TensorSpec((None, None, None, 3), "uint8")
    compute = tf.function(lambda one: model.attention_weights(one, text), input_signature=[spec])
    close(compute(image), model.attention_weights(image, text), 1e-5)
