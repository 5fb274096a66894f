"""Captioned and labelled images from prepared data sets of TensorFlow Datasets (TFDS)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.data.images.captions import CaptionedImages
from attention_zoo.data.images.image_files import ImageStack
from attention_zoo.data.images.images import Size, check_array, parse_size, read_image, resize_image
from attention_zoo.data.images.labelled_images import LabelledImages
from attention_zoo.data.reading import BadRowSkipper, check_not_blank, decode_utf8
from attention_zoo.data.text.tfds import get_feature_value, read_tfds_rows

Rows = Iterator[tuple[str, dict[str, Any]]]


def read_caption_tfds(
    name: str,
    split: str,
    image: str = "image",
    captions: str = "captions/text",
    size: Size | None = None,
    data_dir: str | Path | None = None,
    skip_bad: int = 0,
) -> CaptionedImages:
    """Read images with captions from two features of a prepared TFDS data set.

    Nothing is downloaded. TFDS decodes the images. They are resized in the same way as by
    `read_image`.

    Args:
        name: TFDS name of the data set: "coco_captions".
        split: a TFDS split: "train", "val[:1000]".
        image: feature of the images.
        captions: feature of the captions, one or more texts; a nested feature is named as in
            "captions/text".
        size: size that images are resized to: the side of a square or (height, width). By default,
            images are not resized and must all have the same size.
        data_dir: TFDS folder of prepared data sets; None means the default of TFDS.
        skip_bad: maximum number of rows with a bad image or without a caption to skip. More raise
            an error.

    Raises:
        ValueError: as `read_tfds`; a feature that is not an image or not text; an image that
            differs in size from the first.
    """
    size = parse_size(size)
    rows = _read_image_rows(name, split, (image, captions), data_dir)[1]
    stack, skipper, origin = ImageStack(), BadRowSkipper(skip_bad), f"{name} {split}"
    for number, (location, row) in enumerate(rows, 1):
        with skipper:
            texts = _get_captions(location, captions, get_feature_value(row, captions))
            stack.add(location, read_image(row[image], size, location), (texts, str(number)))
    if not stack.entries:
        raise ValueError(f"{origin}: no image with a caption (bad rows skipped: {skipper.count})")
    all_texts, names = map(list, zip(*stack.entries, strict=True))
    return CaptionedImages(stack.images(), all_texts, names, origin, skipper.count)


def read_labelled_tfds(
    name: str,
    split: str,
    image: str = "image",
    label: str = "label",
    size: Size | None = None,
    data_dir: str | Path | None = None,
    skip_bad: int = 0,
) -> LabelledImages:
    """Read images with class labels from two features of a prepared TFDS data set.

    Nothing is downloaded. Grayscale images keep their single channel.

    Args:
        name: TFDS name of the data set: "mnist".
        split, image, size, data_dir: as in `read_caption_tfds`.
        label: feature of the classes, a `ClassLabel`.
        skip_bad: maximum number of rows with a bad image to skip. More raise an error.

    Raises:
        ValueError: as `read_tfds`; a feature that is not an image or not a `ClassLabel`; an image
            that differs in size from the first.
    """
    size = parse_size(size)
    features, rows = _read_image_rows(name, split, (image, label), data_dir)
    if not hasattr(features[label], "int2str"):
        raise ValueError(f"{name}: feature {label!r} is not a ClassLabel; choose one that is")
    stack, skipper, origin = ImageStack(), BadRowSkipper(skip_bad), f"{name} {split}"
    for number, (location, row) in enumerate(rows, 1):
        with skipper:
            pixels = resize_image(check_array(location, row[image]), size)
            stack.add(location, pixels, (int(row[label]), str(number)))
    if not stack.entries:
        raise ValueError(f"{origin}: contains no image (bad rows skipped: {skipper.count})")
    labels, names = map(list, zip(*stack.entries, strict=True))
    classes = list(features[label].names)
    return LabelledImages(
        stack.images(), np.array(labels, np.int32), classes, names, origin, skipper.count
    )


def _read_image_rows(
    name: str, split: str, required: tuple[str, str], data_dir: str | Path | None
) -> tuple[dict[str, Any], Rows]:
    """Return the features of a data set, and the location and values of each row."""
    features, rows = read_tfds_rows(name, split, required, data_dir)
    shape = features[required[0]].shape
    if not isinstance(shape, tuple) or len(shape) != 3:
        raise ValueError(f"{name}: feature {required[0]!r} is not an image; choose one that is")
    return features, rows


def _get_captions(location: str, name: str, value: Any) -> tuple[str, ...]:
    """Return the captions of a row."""
    captions = [value] if isinstance(value, bytes) else list(np.ravel(value))
    if not captions:
        raise ValueError(f"{location}: the field {name!r} is empty")
    if not all(isinstance(text, bytes) for text in captions):
        raise ValueError(f"{location}: field {name!r} must be a string or a list of strings")
    return tuple(
        check_not_blank(location, decode_utf8(location, text), f"field {name!r}")
        for text in captions
    )
