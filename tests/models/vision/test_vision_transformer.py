"""Vision Transformer: patches, positions, sizes, and its use in captioners and retrievers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import models
from attention_zoo.models.vision.image_encoders import complete_encoder_options, make_encoder
from tests.layers.running import any_batch, array, close
from tests.refusals import refuses

SIZES = {"image_size": 12, "patch_size": 4, "embedding_dim": 8, "units": 12, "num_heads": 2}
OPTIONS: dict[str, Any] = {"kind": "vit", **SIZES, "num_layers": 2}
NORMALIZATION = {"mean": [0.1, 0.2, 0.3], "std": 0.7}
IMAGES = np.random.default_rng(0).integers(0, 256, (2, 12, 12, 3)).astype("uint8")
TARGET = np.array([[2, 5, 6], [2, 7, 0]], "int32")


def build(dtype: str = "float32", **options: Any) -> Any:
    settings = complete_encoder_options({**OPTIONS, **options})
    encoder = make_encoder(settings, keras.dtype_policies.get(dtype))
    encoder.build((None, None, None, 3))
    return encoder


def test_embedded_patches_equal_numpy() -> None:
    """Patches are read row by row, each with its pixels row by row."""
    encoder = build(num_layers=1, layer={"norm_first": False}, normalization=NORMALIZATION)
    encoder.encoder.clear()
    pixels = (IMAGES / 255 - [0.1, 0.2, 0.3]) / 0.7
    kernel, bias = map(array, encoder.patch_projection.weights)
    positions = array(encoder.positions)[0, 1:].reshape(3, 3, 8)
    for row in range(3):
        for column in range(3):
            patch = pixels[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            want = patch.reshape(2, -1) @ kernel + bias + positions[row, column]
            close(array(encoder(IMAGES))[:, row, column], want, 1e-5)
    token = array(encoder.class_token) + array(encoder.positions)[:, :1]
    close(array(encoder.encode(IMAGES))[:, :1], np.repeat(token, 2, axis=0), 1e-6)


def test_empty_batch_and_shapes() -> None:
    encoder = build()
    want = array(encoder(IMAGES))
    assert want.shape == encoder.compute_output_shape(IMAGES.shape) == (2, 3, 3, 8)
    assert encoder.compute_output_shape((None, None, None, 3)) == (None, 3, 3, 8)
    run = any_batch(encoder)
    for rows in (slice(0), slice(1, 2)):
        close(run(IMAGES[rows]), want[rows], 1e-5)
    close(encoder(IMAGES.astype("float32")), want, 1e-6)


@pytest.mark.parametrize("dtype", ["float16", "mixed_bfloat16"])
def test_precisions(dtype: str) -> None:
    encoder, reference = build(dtype), build()
    reference.set_weights(encoder.get_weights())
    output = encoder(IMAGES)
    assert keras.backend.standardize_dtype(output.dtype) == encoder.compute_dtype
    close(array(keras.ops.cast(output, "float32")), array(reference(IMAGES)), 0.1)


def test_dropout_in_training_only() -> None:
    encoder = build(dropout=0.5)
    outputs = [array(encoder(IMAGES, training=True)) for _ in range(2)]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3
    close(encoder(IMAGES), array(encoder(IMAGES, training=False)), 0)


@refuses(
    ({"patch_size": 5}, "patch_size must divide image_size, got patch_size=5, image_size=12"),
    ({"num_heads": 3}, "num_heads must divide embedding_dim"),
    ({"normalization": {"std": 0.0}}, "std must be a finite number above 0, got 0.0"),
    ({"normalization": {"mean": [1, 2]}}, "mean must be a number or three numbers, got [1, 2]"),
    ({"normalization": {"mean": float("nan")}}, "mean must be a finite number"),
    ({"normalization": {"scale": 1}}, "normalization has no option"),
    ({"layer": {"activations": "relu"}}, "layer has no option"),
    ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
    literal=True,
)
def test_invalid_options_are_rejected(changes: dict[str, Any]) -> None:
    build(**changes)


def test_images_of_another_size_are_rejected() -> None:
    encoder = build()
    with pytest.raises(
        ValueError, match="image must have 12 x 12 pixels, the image_size of the encoder, got 16 x"
    ):
        encoder(np.zeros((2, 16, 12, 3), "uint8"))


def make_captioner(**options: Any) -> Any:
    sizes = {"embedding_dim": 8, "units": 12, "num_heads": 2}
    return models.CaptionTransformer(9, **{**sizes, "encoder": OPTIONS, **options})


@pytest.mark.parametrize(
    ("options", "has_class_token", "is_projected"),
    [
        ({"num_layers": 1}, False, True),
        ({"num_layers": [0, 2]}, True, False),
        ({"num_layers": [0, 1], "embedding_dim": 12}, True, True),
    ],
)
def test_captioners(options: dict[str, Any], has_class_token: bool, is_projected: bool) -> None:
    """The memory has the class token if no layers of the captioner are over it."""
    model = make_captioner(**options)
    assert model.has_class_token == has_class_token
    assert (model.input_projection is not None) == is_projected
    memory = array(model.encode(IMAGES))
    assert memory.shape == (2, 9 + has_class_token, model.settings["embedding_dim"])
    if has_class_token and not is_projected:
        close(memory, array(model.encoder.encode(IMAGES)), 0)
    result = model.search(IMAGES, max_length=4)
    weights = array(result.attention)
    assert weights.shape[-1] == 9
    assert model.grid_shape(IMAGES) == (3, 3)
    sums = weights.sum(-1)
    assert (sums < 1).all() if has_class_token else (np.abs(sums - 1) < 1e-5).all()


def test_a_captioner_without_layers_over_a_cnn() -> None:
    encoder = {"kind": "cnn", "filters": [4, 8]}
    model = make_captioner(num_layers=[0, 1], encoder=encoder)
    assert not model.has_class_token
    assert model.input_projection is None
    memory = array(model.encode(IMAGES))
    close(memory, array(model.encoder(IMAGES)).reshape(2, 9, 8), 0)


@pytest.mark.full
def test_all_weights_of_a_captioner_are_trained() -> None:
    """Without layers of the encoder, there is no norm after them and no second positions."""
    positions = {"kind": "learned", "max_length": 8, "scale": 1.0}
    model = make_captioner(num_layers=[0, 1], positions=positions, use_output_bias=True)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = [array(weight) for weight in model.trainable_weights]
    labels = np.array([[5, 6, 3], [7, 3, 4]])
    model.fit({"image": IMAGES, "target": TARGET}, labels, epochs=3, verbose=0)
    # Keys have a bias that cannot change the softmax.
    unchanged = [
        weight.path
        for weight, old in zip(model.trainable_weights, before, strict=True)
        if np.array_equal(array(weight), old)
    ]
    assert all("key_bias" in path for path in unchanged), unchanged


def test_settings_are_saved(tmp_path: Any) -> None:
    model = make_captioner(num_layers=(0, 1), use_output_bias=True)
    model.save_to_preset(tmp_path)
    loaded = models.from_preset(tmp_path)
    inputs = {"image": IMAGES, "target": TARGET}
    close(loaded(inputs), array(model(inputs)), 0)
    assert loaded.get_max_target_lengths(np.array([1])) is None


@refuses(
    ({"num_layers": [1, 0]}, "num_layers must be at least 1, got 0"),
    ({"num_layers": [0]}, "num_layers must be a number or two numbers, got [0]"),
    ({"num_layers": []}, "num_layers must be a number or two numbers, got []"),
    ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
    ({"positions": "learned"}, "require max_length"),
    (
        {"positions": {"kind": "learned", "max_length": 9}, "num_layers": [2, 1]},
        "positions: learned positions require num_layers=[0, N], got [2, 1]",
    ),
    literal=True,
)
def test_invalid_captioners_are_rejected(changes: dict[str, Any]) -> None:
    make_captioner(**changes)


def test_a_retriever_with_this_encoder() -> None:
    model = models.from_preset(
        "cross_attention_retriever_small", vocabulary_size=9, encoder=OPTIONS
    )
    assert model.grid_shape(IMAGES) == (3, 3)
    scores = model({"image": IMAGES, "text": TARGET})
    assert np.isfinite(array(scores)).all()
