"""Base class of tasks whose inputs are images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
from numpy.typing import NDArray

from attention_zoo.data import read_image
from attention_zoo.tasks.base import Input, Locations, Task, add_locations

Image = str | Path | bytes | NDArray[np.uint8]


class ImageTask(Task):
    """Base class of tasks whose inputs are images.

    Attributes:
        image_size: every image is resized to a square with this side, in pixels.
    """

    inputs: ClassVar[tuple[Input, ...]] = (Input("images", "image"),)
    example_noun: ClassVar[str] = "images"
    image_size: int

    def check_sources(self, sources: Sequence[str], locations: Locations = None) -> None:
        """Raise ValueError for an image file that `predict` rejects; see `Task.check_sources`."""
        for location, path in add_locations(sources, locations, "image"):
            if not path:
                raise ValueError(f"{location}: is empty; give the path of an image")
            self._read_image(path, f"{location}: {path}")

    def _read_image(self, image: Image, name: str) -> NDArray[np.uint8]:
        """Read an image with the size and the channels of the model's input."""
        return read_image(image, self.image_size, name)

    def _read_images(self, images: Sequence[Image], names: Sequence[str]) -> NDArray[np.uint8]:
        """Read images as `(N, H, W, C)`; `names` are for error messages."""
        return np.stack([self._read_image(*pair) for pair in zip(images, names, strict=True)])

    def _read_batches(self, images: Any, batch_size: int) -> Iterator[NDArray[np.uint8]]:
        """Read the images of `predict` in batches."""
        if is_single_image(images):
            raise ValueError("predict takes a list of images; write predict([image])")
        names = name_images(images)
        for start in range(0, len(images), batch_size):
            part = slice(start, start + batch_size)
            yield self._read_images(images[part], names[part])


def is_single_image(images: Any) -> bool:
    """Return whether the argument is one image instead of a list or an array `(N, H, W, C)`."""
    if isinstance(images, np.ndarray) or keras.ops.is_tensor(images):
        return len(images.shape) in (2, 3)
    return isinstance(images, str | Path | bytes)


def name_images(images: Sequence[Image]) -> list[str]:
    """Return the name of each image: its path, or "image" and its number from 0."""
    return [str(x) if isinstance(x, str | Path) else f"image {row}" for row, x in enumerate(images)]
