"""EfficientNet-Lite: parity with PyTorch, shapes, precisions, and its use in captioners."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import models
from attention_zoo.models.public.tensors import Tensors
from attention_zoo.models.vision.efficientnet_lite import EfficientNetLite
from attention_zoo.models.vision.image_encoders import complete_encoder_options, make_encoder
from tests.layers.running import any_batch, array, close, same
from tests.models.public.checkpoints import (
    GOLDEN,
    change_config,
    copy_of,
    expected,
    find_transformers,
)
from tests.refusals import refuses

FOLDER = GOLDEN / "efficientnet_lite"
SMALL = {"width_coefficient": 0.1, "depth_coefficient": 0.34}
IMAGES = np.random.default_rng(0).integers(0, 256, (2, 40, 33, 3)).astype("uint8")
TARGET = np.array([[2, 5, 6], [2, 7, 0]], "int32")


def build(dtype: str = "float32", **options: Any) -> Any:
    settings = complete_encoder_options({"kind": "efficientnet_lite", **SMALL, **options})
    encoder = make_encoder(settings, keras.dtype_policies.get(dtype))
    encoder.build((None, None, None, 3))
    return encoder


def check_parity(folder: Path) -> None:
    """Assert that features and logits are those of PyTorch, on even and odd sizes."""
    golden, tensors = expected(folder), Tensors(folder)
    encoder = models.from_public(folder)
    assert isinstance(encoder, EfficientNetLite)
    kernel, bias = (tensors[f"_fc.{name}"].astype("float32") for name in ("weight", "bias"))
    for size in (48, 37):
        features = array(encoder(golden[f"images_{size}"]))
        close(features, golden[f"features_{size}"], 1e-4)
        logits = features.mean(axis=(1, 2)) @ kernel.T + bias
        close(logits, golden[f"logits_{size}"], 1e-4)
        assert np.ptp(golden[f"logits_{size}"], axis=0).min() > 1e-2, "the images differ"


@pytest.mark.every_backend
def test_parity_with_pytorch() -> None:
    check_parity(FOLDER)


@pytest.mark.zoo
def test_parity_with_a_new_checkpoint(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "public" / "efficientnet_lite_by_pytorch.py"
    subprocess.run([find_transformers(), str(script), str(tmp_path)], check=True)
    check_parity(tmp_path)


@pytest.mark.full
def test_odd_sizes_and_empty_batch() -> None:
    encoder = models.from_public(FOLDER)
    want = array(encoder(IMAGES))
    assert want.shape == encoder.compute_output_shape(IMAGES.shape) == (2, 2, 2, 1280)
    assert encoder.compute_output_shape((None, None, 64, 3)) == (None, None, 2, 1280)
    run = any_batch(encoder)
    for rows in (slice(0), slice(1, 2)):
        close(run(IMAGES[rows]), want[rows], 1e-4)
    close(encoder(IMAGES.astype("float32")), want, 1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 0.02), ("mixed_bfloat16", 0.2)])
def test_precisions(dtype: str, tolerance: float) -> None:
    encoder, reference = (build(policy, weights=str(FOLDER)) for policy in (dtype, "float32"))
    output = encoder(IMAGES)
    assert keras.backend.standardize_dtype(output.dtype) == encoder.compute_dtype
    close(array(keras.ops.cast(output, "float32")), array(reference(IMAGES)), tolerance)


def test_parameter_counts() -> None:
    """They are those of lite0, lite2 and lite4 in PyTorch, without the classifier."""
    sizes = {(1.0, 1.0): 3_371_008, (1.1, 1.2): 4_811_072, (1.4, 1.8): 11_725_568}
    for coefficients, count in sizes.items():
        encoder = EfficientNetLite(*coefficients)
        with keras.StatelessScope(initialize_variables=False):
            encoder.build((None, None, None, 3))
        assert sum(np.prod(x.shape) for x in encoder.trainable_variables) == count


def test_batch_statistics_are_used_in_training_unless_frozen() -> None:
    encoder = build()
    evaluated = array(encoder(IMAGES))
    frozen = build()
    frozen.set_weights(encoder.get_weights())
    frozen.trainable = False
    assert np.abs(array(encoder(IMAGES, training=True)) - evaluated).max() > 1e-3
    same(frozen(IMAGES, training=True), evaluated)
    same(frozen(IMAGES), evaluated)
    assert np.abs(array(encoder(IMAGES)) - evaluated).max() > 1e-5, "moving averages are updated"


def make_captioner(**options: Any) -> Any:
    encoder = {"kind": "efficientnet_lite", **SMALL, **options}
    sizes = {"embedding_dim": 4, "units": 4, "attention_units": 3}
    return models.ShowAttendTell(12, encoder=encoder, **sizes)


@pytest.mark.full
def test_captioner_with_a_pretrained_encoder_is_saved_and_loaded(tmp_path: Path) -> None:
    model = make_captioner(weights=str(FOLDER))
    golden = expected(FOLDER)
    close(model.encoder(golden["images_48"]), golden["features_48"], 1e-4)
    model.save_to_preset(tmp_path / "captioner")
    loaded = models.from_preset(tmp_path / "captioner")
    assert loaded.settings["encoder"] == {"kind": "efficientnet_lite", **SMALL}
    inputs = {"image": IMAGES, "target": TARGET}
    same(loaded(inputs), model(inputs))
    again = make_captioner(weights=str(tmp_path / "captioner"))
    same(again.encoder(IMAGES), model.encoder(IMAGES))


@pytest.mark.full
def test_without_head(tmp_path: Path) -> None:
    """The output is that of the last block; the head, applied to it, gives the whole output."""
    whole, part = (build(weights=str(FOLDER), use_head=value) for value in (True, False))
    features = array(part(IMAGES))
    assert features.shape == part.compute_output_shape(IMAGES.shape) == (2, 2, 2, 32)
    close(whole.head(features), array(whole(IMAGES)), 1e-5)
    make_captioner(use_head=False).save_to_preset(tmp_path / "saved")
    with pytest.raises(
        ValueError, match=r"has no head, but encoder\.use_head is true; set encoder\."
    ):
        build(weights=str(tmp_path / "saved"))


@refuses(
    ({"width_coefficient": 0.0}, "width_coefficient must be a finite number above 0, got 0.0"),
    ({"depth_coefficient": "1"}, "depth_coefficient must be a"),
    ({"depth": 2}, "has no option 'depth'"),
    ({"weights": "nowhere"}, "encoder.weights: "),
    (
        {"width_coefficient": 1.0, "weights": str(FOLDER)},
        "has width_coefficient 0.1, but encoder.width_coefficient is 1.0; use the same",
    ),
    (
        {"weights": str(GOLDEN / "gpt2")},
        "gpt2: its model has no encoder of kind efficientnet_lite",
    ),
    literal=True,
)
def test_invalid_options_are_rejected(changes: dict[str, Any]) -> None:
    build(**changes)


def test_damaged_checkpoints_are_rejected(tmp_path: Path) -> None:
    folder = copy_of("efficientnet_lite", tmp_path)
    with pytest.raises(ValueError, match="is an EfficientNetLite, not a GPT"):
        models.GPT.from_preset(folder)
    with pytest.raises(ValueError, match="depth_coefficient of the checkpoint cannot be changed"):
        models.from_public(folder, depth_coefficient=1.0)
    change_config(folder, depth_coefficient=1.0)
    with pytest.raises(ValueError, match=r"tensor _blocks\S+ (is missing|has shape)"):
        models.from_public(folder)
    change_config(folder, width_coefficient="wide")
    with pytest.raises(ValueError, match="width_coefficient"):
        models.from_public(folder)
