"""Labelled images: arrays of an `.npz` file, or a folder of images for each class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.examples import Examples
from attention_zoo.data.images.image_files import ImageStack, is_image, list_image_files
from attention_zoo.data.images.images import (
    Size,
    check_stack,
    compute_digest,
    parse_size,
    read_image,
    resize_images,
)
from attention_zoo.data.progress import log_progress
from attention_zoo.data.reading import BadRowSkipper, get_first_line
from attention_zoo.data.storage.npz_files import NpzFile, open_npz
from attention_zoo.registry import did_you_mean

MAX_CLASSES = 1 << 16
"""Maximum number of classes that have no names."""


@dataclass(frozen=True)
class LabelledImages(Examples):
    """Images of one size, with class labels.

    Attributes:
        images: `(N, H, W, C)`, uint8; C is 1 for grayscale images, 3 for RGB.
        labels: `(N,)`, int32: class of each image, counted from 0.
        classes: name of each class.
        names: name of each image: its file name or its number.
        origin: source of the data, for display and for saved results.
        skipped: number of bad images that were skipped on request.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int32]
    classes: list[str]
    names: list[str]
    origin: str
    skipped: int = 0

    columns = ("images", "labels", "names")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stack(self.origin, self.images, (1, 3))
        is_invalid = (self.labels < 0) | (self.labels >= len(self.classes))
        if is_invalid.any():
            row = int(is_invalid.argmax())
            raise ValueError(
                f"{self.origin}: the label of image {self.names[row]} must be in"
                f" [0, {len(self.classes)}), the range of class ids, got {self.labels[row]}"
            )

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield a digest of each image, and the name of its class."""
        for image, label in zip(self.images, self.labels, strict=True):
            yield compute_digest(image), self.classes[label]

    def resize(self, size: int) -> LabelledImages:
        """Return the images resized to squares of side `size`, in the same way as `read_image`."""
        return replace(self, images=resize_images(self.images, size))


def read_npz_images(
    path: str | Path, images: str = "x_train", labels: str = "y_train"
) -> LabelledImages:
    """Read images and labels from two arrays of an `.npz` file. Class names are label numbers.

    Args:
        path: the file, as `numpy.savez` writes it.
        images: name of the image array: `(N, H, W)`, `(N, H, W, 1)` or `(N, H, W, 3)`, uint8.
        labels: name of the label array: `(N,)`, integers from 0.

    Raises:
        ValueError: a missing or damaged file, a missing array, an array of another dtype or shape,
            no images, a label below 0 or of `MAX_CLASSES` or more.
    """
    pixels, label_array = _load_arrays(path, (images, labels))
    pixels = _check_pixels(path, images, pixels)
    if label_array.ndim != 1 or label_array.dtype.kind not in "iu":
        raise ValueError(
            f"{path}: {labels!r} must be integers (N,), got {label_array.dtype} of shape"
            f" {label_array.shape}"
        )
    if not label_array.size:
        raise ValueError(f"{path}: {labels!r} is empty; give one label per image")
    minimum, maximum = int(label_array.min()), int(label_array.max())
    if minimum < 0 or maximum >= MAX_CLASSES:
        raise ValueError(
            f"{path}: {labels!r} must be from 0 to {MAX_CLASSES - 1}, got {minimum} to {maximum}"
        )
    classes = [str(number) for number in range(maximum + 1)]
    names = [str(number) for number in range(1, len(label_array) + 1)]
    return LabelledImages(pixels, label_array.astype(np.int32), classes, names, str(path))


def read_class_folders(
    images: str | Path, size: Size | None = None, skip_bad: int = 0
) -> LabelledImages:
    """Read RGB images from a folder, or a zip, that has a folder for each class: `cat/1.jpg`.

    Classes are sorted by folder name, the images of a class by file name. A file is ignored if its
    suffix, or its content if it has no suffix, is not that of an image.

    Args:
        images: a folder, or a zip, which is not unpacked to disk.
        size: size that images are resized to: the side of a square or (height, width). By default,
            images are not resized and must all have the same size.
        skip_bad: maximum number of images to skip because they are bad or in no class. More raise
            an error.

    Raises:
        ValueError: neither a folder nor a zip; no images; a class folder without images; a single
            folder around all class folders; an image that is in no class, cannot be read (see
            `read_image`), or differs in size from the first; an invalid size.
    """
    size = parse_size(size)
    stack, skipper = ImageStack(), BadRowSkipper(skip_bad)
    with list_image_files(images) as files:
        image_names = [name for name in files if is_image(name, files)]
        classes = _top_folders(image_names)
        for empty in sorted(set(_top_folders(files)) - set(classes)):
            with skipper:
                raise ValueError(f"{images}/{empty}: contains no image; remove the folder")
        if len(classes) == 1 and all(name.count("/") > 1 for name in image_names):
            raise ValueError(
                f"{images}: all images are in subfolders of {classes[0]!r}; give the path of that"
                " folder, or repack the zip without it"
            )
        for name in log_progress(image_names, str(images), "images"):
            with skipper:
                location = f"{images}/{name}"
                if "/" not in name:
                    raise ValueError(f"{location}: is in no class folder; move it into one")
                stack.add(location, read_image(files[name](), size, location), name)
    names = stack.entries
    if not names:
        raise ValueError(
            f"{images}: no image in a class folder (bad images skipped: {skipper.count})"
        )
    labels = np.array([classes.index(name.partition("/")[0]) for name in names], np.int32)
    return LabelledImages(stack.images(), labels, classes, names, str(images), skipper.count)


def _top_folders(names: Iterable[str]) -> list[str]:
    """Return the outermost folders of the files, sorted."""
    return sorted({name.partition("/")[0] for name in names if "/" in name})


def list_npz_arrays(path: str | Path) -> list[str]:
    """Return the names of the arrays of an `.npz` file; raise ValueError if it is damaged."""
    with _open_arrays(path) as arrays:
        return list(arrays)


def read_npz_pixels(path: str | Path, name: str | None = None) -> NDArray[np.uint8]:
    """Return an image array of an `.npz` file as `(N, H, W, C)`.

    Args:
        path: the file.
        name: name of the array; None if the file has only one array of at least three axes.

    Raises:
        ValueError: as `read_npz_images`; several such arrays, or none, and no name.
    """
    if name is None:
        with _open_arrays(path) as arrays:
            names = [key for key, header in arrays.headers.items() if len(header.shape) > 2]
            known = ", ".join(arrays)
        if len(names) != 1:
            raise ValueError(f"{path}: name the array of the images (arrays: {known})")
        name = names[0]
    (pixels,) = _load_arrays(path, (name,))
    return _check_pixels(path, name, pixels)


def _check_pixels(path: str | Path, name: str, pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return images `(N, H, W)` or `(N, H, W, C)` with an axis of channels."""
    if pixels.ndim not in (3, 4):
        raise ValueError(
            f"{path}: {name!r} must be (N, H, W) or (N, H, W, 3), got shape {pixels.shape}"
        )
    if pixels.dtype != np.uint8:
        raise ValueError(f"{path}: {name!r} must be uint8, from 0 to 255, got {pixels.dtype}")
    return pixels[..., None] if pixels.ndim == 3 else pixels


def _load_arrays(path: str | Path, required: Sequence[str]) -> list[NDArray[Any]]:
    """Return the arrays of an npz file with the given names."""
    names = list_npz_arrays(path)
    for name in required:
        if name not in names:
            suggestion = did_you_mean(name, names)
            raise ValueError(
                f"{path}: has no array {name!r}{suggestion} (arrays: {', '.join(names)})"
            )
    with _open_arrays(path) as arrays:
        return [arrays[name] for name in required]


@contextmanager
def _open_arrays(path: str | Path) -> Iterator[NpzFile]:
    """Open an npz file; raise ValueError if it, or an array that is read, is damaged."""
    try:
        with open_npz(path) as arrays:
            yield arrays
    except MemoryError:
        raise ValueError(f"{path}: does not fit into memory; give a smaller file") from None
    except Exception as error:  # NumPy raises many classes
        reason = "not an npz file, or a damaged one"
        if isinstance(error, OSError) and error.filename is not None:
            raise ValueError(f"{path}: {error.strerror}") from None
        if isinstance(error, ValueError):
            reason = get_first_line(error)
        raise ValueError(f"{path}: {reason}; save arrays of numbers with numpy.savez") from None
