"""Settings of the image processor of a public checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_zoo.json_files import read_strict_json

PROCESSOR = "preprocessor_config.json"

CLASSES = (
    "ViTImageProcessor",
    "ViTImageProcessorFast",
    "ViTImageProcessorPil",
    "ViTFeatureExtractor",
)

SUPPORTED: dict[str, tuple[Any, ...]] = {
    "do_center_crop": (False,),
    "do_pad": (False,),
    "do_resize": (True,),
    "feature_extractor_type": ("ViTFeatureExtractor",),
    "image_processor_type": CLASSES,
    "resample": (2,),  # bilinear
}
"""Supported values of fields that change the pixels; null too, except for `do_resize`."""

CONVERTED = {"do_normalize", "do_rescale", "image_mean", "image_std", "rescale_factor", "size"}
"""Fields that determine the normalization and the size."""

IGNORED = {
    "_valid_processor_keys",
    "crop_size",
    "data_format",
    "default_to_square",
    "device",
    "disable_grouping",
    "do_convert_rgb",
    "image_seq_length",
    "input_data_format",
    "pad_size",
    "processor_class",
    "return_tensors",
}
"""Fields without effect on the pixels of an RGB image that is resized to a square."""


def read_image_processor(folder: Path, image_size: int) -> dict[str, list[float]]:
    """Return `mean` and `std` of pixels that are divided by 255.

    Args:
        folder: the checkpoint.
        image_size: side of the model's images, which the processor must resize to.

    Raises:
        ValueError: the file is missing or damaged, or a field is not supported.
    """
    path = folder / PROCESSOR
    try:
        fields = read_strict_json(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}; copy it again") from None
    if not isinstance(fields, dict):
        raise ValueError(f"{path}: expected an object; copy it again")
    for name, value in fields.items():
        supported = SUPPORTED.get(name)
        if supported is None and name not in CONVERTED | IGNORED and value is not None:
            raise ValueError(f"{path}: {name}={value!r} is not supported; remove it")
        is_unset = value is None and name != "do_resize"
        if supported is not None and not is_unset and value not in supported:
            raise ValueError(f"{path}: {name}={value!r} is not supported, only {supported[0]!r}")
    size = fields.get("size", image_size)
    square = {"height": image_size, "width": image_size}
    if size not in (image_size, [image_size] * 2, square):
        raise ValueError(
            f"{path}: size={size!r} is not supported, only that of the model, {image_size}"
        )
    return _read_normalization(path, fields)


def _read_normalization(path: Path, fields: dict[str, Any]) -> dict[str, list[float]]:
    """Return the mean and the standard deviation of pixels that are divided by 255."""
    factor = fields.get("rescale_factor", 1 / 255) if fields.get("do_rescale", True) else 1.0
    mean, std = [0.0] * 3, [1.0] * 3
    if fields.get("do_normalize", True):
        mean, std = fields.get("image_mean", [0.5] * 3), fields.get("image_std", [0.5] * 3)
    try:
        if len(mean) != 3 or len(std) != 3:
            raise ValueError
        return {
            "mean": [float(x) / (255 * factor) for x in mean],
            "std": [float(x) / (255 * factor) for x in std],
        }
    except (TypeError, ValueError, ZeroDivisionError):
        raise ValueError(
            f"{path}: image_mean and image_std must be three numbers and rescale_factor a positive"
            f" one, got {mean}, {std} and {factor}; copy the file again"
        ) from None
