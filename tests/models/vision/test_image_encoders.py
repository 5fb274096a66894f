"""Image encoders: trained, precomputed, or a model of keras.applications."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import models
from attention_zoo.data import train_tokenizer
from attention_zoo.models.vision.image_encoders import (
    _list_applications,
    complete_encoder_options,
    make_encoder,
)
from attention_zoo.tasks import Captioning
from tests.layers.running import any_batch, array, close, quick, same
from tests.refusals import refuses
from tests.tasks import captioners, retrievers
from tests.tiers import mark_full

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 13, 7, 3)).astype("uint8")
TARGET = np.array([[2, 5, 6], [2, 7, 0]], "int32")
VGG = {"kind": "VGG16", "weights": None, "layer": "block2_conv2"}
NORMED = {"kind": "MobileNet", "weights": None, "layer": "conv_dw_1_bn"}
KINDS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "cnn": ({"filters": [4, 5, 6]}, (2, 1, 6)),
    "features": ({"kind": "features", "width": 3}, (13, 7, 3)),
    "VGG16": (VGG, (6, 3, 128)),
}
"""Options of each encoder, and its grid shape for `IMAGES`."""


def encoder(dtype: str = "float32", **options: Any) -> Any:
    image_encoder = make_encoder(complete_encoder_options(options), keras.dtype_policies.get(dtype))
    image_encoder.build((None, None, None, image_encoder.channels))
    return image_encoder


@pytest.mark.parametrize("kind", KINDS)
def test_odd_sizes_and_empty_batch(kind: str) -> None:
    options, grid = KINDS[kind]
    image_encoder = encoder(**options)
    expected = array(image_encoder(IMAGES))
    assert expected.shape == image_encoder.compute_output_shape(IMAGES.shape) == (2, *grid)
    assert image_encoder.compute_output_shape((None, None, None, 3)) == (None, None, None, grid[-1])
    assert np.ptp(expected, axis=0).max() > 0, "all images have equal features"
    run = any_batch(image_encoder)
    for rows in (slice(0), slice(1, 2)):
        close(run(IMAGES[rows]), expected[rows], 1e-4)
    assert quick(image_encoder)(IMAGES[:0]).shape == (0, *grid)
    close(image_encoder(IMAGES.astype("float32")), expected, 1e-6)


@pytest.mark.parametrize(("stages", "around"), [(1, 1), (2, 1), (3, 7), (4, 19)])
def test_receptive_field_is_centred_on_its_grid_cell(stages: int, around: int) -> None:
    """With kernels of 1 and images with one bright row: the part of the image that a grid cell
    covers is the centre of its receptive field, so that plots of attention are aligned."""
    image_encoder = encoder(filters=[2] * stages)
    size, position = 2**stages, 4
    grid = np.eye(10 * size, dtype="float32")[:, :, None, None] * np.ones((1, 1, 8 * size, 1))
    for convolution in image_encoder.convolutions:
        convolution.kernel.assign(np.ones(convolution.kernel.shape))
        grid = np.repeat(grid[..., :1], convolution.kernel.shape[2], axis=-1)
        grid = array(convolution(grid.astype("float32")))
        grid /= grid.max()
    rows = np.flatnonzero(grid[:, position, position, 0])
    assert (rows.min(), rows.max()) == (
        size * position - around,
        size * (position + 1) - 1 + around,
    )


@pytest.mark.parametrize("policy", ["float16", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_dtype_policies(kind: str, policy: str) -> None:
    options, grid = KINDS[kind]
    image_encoder = encoder(policy, **options)
    expected = keras.dtype_policies.get(policy)
    result = image_encoder(IMAGES)
    assert result.shape == (2, *grid)
    assert keras.backend.standardize_dtype(result.dtype) == expected.compute_dtype
    assert np.isfinite(array(result)).all()
    assert {variable.dtype for variable in image_encoder.variables} <= {expected.variable_dtype}
    assert keras.config.dtype_policy().name == "float32", "the global policy is left as it was"


def test_cnn_adds_position_embeddings() -> None:
    image_encoder = encoder(filters=[4, 6])
    grids: list[Any] = []
    image_encoder.convolutions[-1].call = lambda grid: grids.append(grid) or grid[..., :6]
    image_encoder(IMAGES[:1])
    rows, columns = (2 * (np.arange(n) + 0.5) / n - 1 for n in (4, 2))
    close(grids[0][0, ..., -2], np.repeat(rows[:, None], 2, 1), 1e-6)
    close(grids[0][0, ..., -1], np.repeat(columns[None], 4, 0), 1e-6)


def test_keras_application_preprocesses_images() -> None:
    image_encoder = encoder(**VGG)
    pixels = keras.applications.vgg16.preprocess_input(IMAGES.astype("float32"))
    close(image_encoder(IMAGES), image_encoder.model(pixels), 1e-4)
    assert image_encoder.model.layers[-1].name == "block2_conv2"


def test_keras_application_is_frozen_or_trainable() -> None:
    """If frozen, it uses its trained batch statistics, also in training."""
    frozen, learns = (encoder(**NORMED, trainable=trainable) for trainable in (False, True))
    assert frozen.trainable_variables == []
    assert len(learns.trainable_variables) > 4
    assert len(frozen.variables) == len(learns.variables)
    same(frozen(IMAGES, training=True), frozen(IMAGES))
    assert np.abs(array(learns(IMAGES, training=True)) - array(learns(IMAGES))).max() > 1e-3


@pytest.mark.parametrize("kind", [*KINDS, mark_full("trainable")])
def test_captioner_is_saved_with_its_encoder(kind: str, tmp_path: Path) -> None:
    """A saved captioner loads without fetching the initial weights again."""
    options = {**VGG, "trainable": True, "weights": None} if kind == "trainable" else KINDS[kind][0]
    sizes = {"embedding_dim": 4, "units": 4, "attention_units": 3}
    model = models.ShowAttendTell(12, encoder=options, **sizes)
    inside = {id(variable) for variable in model.encoder.trainable_variables}
    assert inside <= {id(variable) for variable in model.trainable_variables}
    assert bool(inside) == (kind in ("cnn", "trainable"))
    inputs = {"image": IMAGES, "target": TARGET}
    expected = model(inputs)
    model.save_to_preset(tmp_path / "preset")
    reloaded = models.from_preset(tmp_path / "preset")
    same(reloaded(inputs), expected)
    assert reloaded.settings == model.settings
    assert model.settings["encoder"].get("weights") is None
    assert len(reloaded.trainable_variables) == len(model.trainable_variables)
    if kind == "trainable":
        model.save(tmp_path / "model.keras")
        same(keras.models.load_model(tmp_path / "model.keras")(inputs), expected)


@pytest.mark.every_backend
@pytest.mark.parametrize("name", [*captioners.SIZES, "retriever"])
def test_models_accept_the_feature_grids_of_their_encoders(name: str) -> None:
    if name == "retriever":
        model, text = retrievers.make_untrained_task().model, "text"
    else:
        model, text = captioners.make_untrained_task(name).model, "target"
    images = captioners.captioned(2).images
    grids = array(model.encoder(images))
    want = model({"image": images, text: TARGET})
    same(model({"image": grids, text: TARGET}), want)
    close(model({"image": grids.astype("float16"), text: TARGET}), want, 1e-2)
    assert np.ptp(grids, axis=0).max() > 0
    assert model.grid_shape(grids) == model.grid_shape(images) == (3, 3)
    for wrong in (grids[..., :-1], np.zeros(grids.shape, "uint8")):
        with pytest.raises(ValueError, match="image must be"):
            model({"image": wrong, text: TARGET})


def test_every_keras_application_is_supported() -> None:
    image_encoder = {
        name for name, one in vars(keras.applications).items() if inspect.isfunction(one)
    }
    assert "MobileNetV3Small" in image_encoder
    assert image_encoder == set(_list_applications())
    assert all(hasattr(module, "preprocess_input") for module in _list_applications().values())


def test_default_weights_are_imagenet(monkeypatch: Any) -> None:
    def no_network(*inputs: Any, **named: Any) -> Any:
        raise OSError("no network")

    monkeypatch.setattr(
        sys.modules[keras.applications.VGG19.__module__].file_utils, "get_file", no_network
    )
    message = r"^encoder VGG19: no weights from 'imagenet': no network"
    with pytest.raises(ValueError, match=message):
        models.from_preset("show_attend_tell_base", vocabulary_size=12)


def test_preset_grid_follows_the_paper() -> None:
    options = models.presets.preset_config("show_attend_tell_base")["encoder"]
    image_encoder = encoder(**options, weights=None)
    assert image_encoder.compute_output_shape((None, 224, 224, 3)) == (None, 14, 14, 512)


@pytest.mark.full
def test_imagenet_normalization_is_saved(tmp_path: Path, monkeypatch: Any) -> None:
    """EfficientNet has a normalization layer only with ImageNet weights."""
    layer = "block2a_expand_activation"
    fetched = keras.applications.EfficientNetB0(include_top=False, weights=None)
    for one in fetched.layers:
        if isinstance(one, keras.layers.Normalization):
            one.adapt_variance.assign([0.9, 1.1, 1.3])
    fetched.save_weights(tmp_path / "fetched.weights.h5")
    module = sys.modules[keras.applications.EfficientNetB0.__module__]
    monkeypatch.setattr(
        module.file_utils, "get_file", lambda *inputs, **named: tmp_path / "fetched.weights.h5"
    )
    full = keras.applications.EfficientNetB0(include_top=False, weights="imagenet")
    expected = keras.Model(full.input, full.get_layer(layer).output)(IMAGES.astype("float32"))
    model = models.ShowAttendTell(12, 4, 4, 3, encoder={"kind": "EfficientNetB0", "layer": layer})
    close(model.encoder(IMAGES), expected, 1e-4)
    bare = keras.Model(fetched.input, fetched.get_layer(layer).output)(IMAGES.astype("float32"))
    assert np.abs(array(bare) - array(expected)).max() > 0.01
    monkeypatch.undo()
    model.save_to_preset(tmp_path / "preset")
    close(models.from_preset(tmp_path / "preset").encoder(IMAGES), expected, 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16", "mixed_bfloat16"])
def test_cnn_is_initialized_from_another_model(dtype: str, tmp_path: Path) -> None:
    """From the folder of a retriever, then of a captioner, which is saved without the path."""
    options = {"filters": [4, 5]}
    retriever = models.CrossAttentionRetriever(12, 4, 4, encoder=options)
    rng = np.random.default_rng(1)
    for weight in retriever.encoder.weights:
        weight.assign(rng.normal(size=weight.shape))
    retriever.save_to_preset(tmp_path / "retriever")
    inputs = {**options, "weights": str(tmp_path / "retriever")}
    captioner = models.CaptionTransformer(12, 4, 4, 1, 1, encoder=inputs, dtype=dtype)
    mine, first = captioner.encoder.weights, retriever.encoder.weights
    assert len(captioner.encoder.trainable_variables) == len(first) > 0
    for weight, initial in zip(mine, first, strict=True):
        same(weight, keras.ops.cast(initial, weight.dtype))
    assert captioner.settings["encoder"] == {"kind": "cnn", **options}
    captioner.save_to_preset(tmp_path / "captioner")
    (tmp_path / "retriever").rename(tmp_path / "elsewhere")
    reloaded = models.from_preset(tmp_path / "captioner", dtype=dtype).encoder
    same(reloaded(IMAGES), captioner.encoder(IMAGES))
    assert reloaded(IMAGES[:0]).shape[0] == 0


@pytest.mark.parametrize("wrong", ["nowhere", "empty", "no path", "rnnsearch", "filters"])
def test_initial_weights_of_another_model_are_rejected(wrong: str, tmp_path: Path) -> None:
    position: Any = 5 if wrong == "no path" else tmp_path / wrong
    message = {
        "nowhere": f"{position}: no such folder; train a model",
        "empty": f"{position}: not a run folder",
        "no path": "expected a run or a model's folder, got 5",
        "rnnsearch": f"{position}: its model has no encoder of kind cnn",
        "filters": f"{position}: has filters [4, 5], but encoder.filters is [4, 6]; use the same",
    }[wrong]
    if wrong == "empty":
        position.mkdir()
    if wrong == "rnnsearch":
        models.RNNSearch(8, 8, 4, 4, 4).save_to_preset(position)
    if wrong == "filters":
        models.ShowAttendTell(12, 4, 4, 3, encoder={"filters": [4, 5]}).save_to_preset(position)
    with pytest.raises(ValueError, match=re.escape(f"encoder.weights: {message}")) as grids:
        encoder(filters=[4, 6], weights=position)
    assert "\n" not in str(grids.value)


def test_too_small_images_are_rejected() -> None:
    image_encoder = encoder(**{**VGG, "layer": "block2_pool"})
    assert image_encoder(IMAGES[:, :4, :4]).shape == (2, 1, 1, 128)
    message = "images of 3 x 7 pixels are too small for VGG16; give larger ones"
    with pytest.raises(ValueError, match=message):
        image_encoder(IMAGES[:, :3])
    captioner = models.ShowAttendTell(12, 4, 4, 3, encoder={**VGG, "layer": "block2_pool"})
    with pytest.raises(ValueError, match=r"^images of 3 x 3 pixels are too small for VGG16; give"):
        Captioning(captioner, train_tokenizer("whitespace", ["a b c d e f g h"], 12), image_size=3)


@refuses(
    ({"kind": "cn"}, "^encoder.kind 'cn' is unknown; .* did you mean 'cnn'"),
    ({"kind": "vgg16"}, "^encoder.kind 'vgg16' is unknown; it is one of cnn, .* mean 'VGG16'"),
    ({"filter": [3]}, "^encoder.kind='cnn' has no option 'filter'; did you mean 'filters'"),
    ({"kind": "VGG16", "width": 3}, "^encoder.kind='VGG16' has no option 'width'"),
    ({"kind": "features"}, "^encoder.kind='features' needs the option 'width'"),
    ({"kind": "features", "width": 0}, "^width must be at least 1, got 0"),
    ({"filters": []}, "^filters is empty; give a width for each stage"),
    ({"filters": 8}, "^filters must be a list, a width for each stage, got 8"),
    ({"filters": [4, 0]}, "^filters must be at least 1, got 0"),
    (
        {**VGG, "layer": "block2_conv9"},
        "^VGG16 has no layer 'block2_conv9'; did you mean 'block2_conv",
    ),
    ({**VGG, "weights": "nowhere.h5"}, "^encoder VGG16: no weights from 'nowhere.h5': "),
)
def test_invalid_options_are_rejected(options: Any) -> None:
    encoder(**options)
