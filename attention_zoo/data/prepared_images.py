"""Images with captions or classes from data sets that TensorFlow Datasets has prepared here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.data.captions import CaptionedImages
from attention_zoo.data.image_files import ImageStack
from attention_zoo.data.images import Size, check_size, checked_array, read_image, resized
from attention_zoo.data.labelled_images import LabelledImages
from attention_zoo.data.prepared import prepared_rows
from attention_zoo.data.reading import Skips, decoded, filled

Rows = Iterator[tuple[str, str, dict[str, Any]]]


def read_caption_tfds(
    name: str,
    split: str,
    image: str = "image",
    captions: str = "captions/text",
    size: Size | None = None,
    data_dir: str | Path | None = None,
    skip_bad: int = 0,
) -> CaptionedImages:
    """Images with captions from two features of a prepared data set; nothing is downloaded.

    TFDS decodes the images; they are resized as `read_image` does it.

    Args:
        name: the set's TFDS name: "coco_captions".
        split: a TFDS split: "train", "val[:1000]".
        image: the feature of the images.
        captions: that of the captions, a text or several; one within another is "captions/text".
        size: one side of a square, or height and width, that images are resized to; without, all
            must be of one size.
        data_dir: where TFDS keeps prepared sets; its own default if None.
        skip_bad: how many rows without caption or of a bad image may be left out; one more is an
            error.

    Raises:
        ValueError: as `read_tfds`; a feature that is no image, or no text; an image of another size
            than the first.
    """
    check_size(size)
    rows = _image_rows(name, split, (image, captions), data_dir)[1]
    stack, skips = ImageStack(), Skips(skip_bad)
    texts: list[tuple[str, ...]] = []
    names: list[str] = []
    for where, number, row in rows:
        with skips:
            found = _texts(where, captions, _value(row, captions))
            stack.add(where, read_image(row[image], size, where))
            texts.append(found)
            names.append(number)
    if not names:
        raise ValueError(f"{name} {split}: no image with a caption (left out: {skips.count})")
    return CaptionedImages(stack.images(), texts, names, f"{name} {split}", skips.count)


def read_labelled_tfds(
    name: str,
    split: str,
    image: str = "image",
    label: str = "label",
    size: Size | None = None,
    data_dir: str | Path | None = None,
    skip_bad: int = 0,
) -> LabelledImages:
    """Images of classes from two features of a prepared data set; nothing is downloaded.

    Grey images keep their one channel.

    Args:
        name: the set's TFDS name: "mnist".
        split, image, size, data_dir: as those of `read_caption_tfds`.
        label: the feature of the classes, which TFDS has by number and by name.
        skip_bad: how many rows of a bad image may be left out; one more is an error.

    Raises:
        ValueError: as `read_tfds`; a feature that is no image, or no class; an image of another
            size than the first.
    """
    check_size(size)
    features, rows = _image_rows(name, split, (image, label), data_dir)
    if not hasattr(features[label], "int2str"):
        raise ValueError(f"{name}: feature {label!r} is no ClassLabel; name one that is")
    stack, labels, names = ImageStack(), list[int](), list[str]()
    skips = Skips(skip_bad)
    for where, number, row in rows:
        with skips:
            stack.add(where, resized(checked_array(where, row[image]), size))
            labels.append(int(row[label]))
            names.append(number)
    if not names:
        raise ValueError(f"{name} {split}: holds no image (left out: {skips.count})")
    return LabelledImages(
        stack.images(),
        np.asarray(labels, np.int32),
        list(features[label].names),
        names,
        f"{name} {split}",
        skips.count,
    )


def _image_rows(
    name: str, split: str, wanted: tuple[str, str], data_dir: str | Path | None
) -> tuple[dict[str, Any], Rows]:
    """The features of a set, and its rows: where each stands, its number from 1 and its values."""
    features, rows = prepared_rows(name, split, wanted, data_dir)
    shape = features[wanted[0]].shape
    if not isinstance(shape, tuple) or len(shape) != 3:
        raise ValueError(f"{name}: feature {wanted[0]!r} is no image; name one that is")
    numbered = enumerate(rows, 1)
    return features, ((f"{name} {split}: row {n}", str(n), row) for n, row in numbered)


def _value(row: dict[str, Any], name: str) -> Any:
    """What a row has of a feature, or of one within another."""
    outer, _, inner = name.rpartition("/")
    return row[name] if name in row else row[outer][inner]


def _texts(where: str, name: str, value: Any) -> tuple[str, ...]:
    """The captions of a row."""
    found = [value] if isinstance(value, bytes) else list(np.ravel(value))
    if not found:
        raise ValueError(f"{where}: the field {name!r} is empty")
    if not all(isinstance(text, bytes) for text in found):
        raise ValueError(f"{where}: field {name!r} is neither a text nor a list of texts")
    return tuple(filled(where, decoded(where, text), f"field {name!r}") for text in found)
