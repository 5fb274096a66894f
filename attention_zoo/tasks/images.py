"""Base class of tasks whose inputs are images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
from numpy.typing import NDArray

from attention_zoo.data import read_image
from attention_zoo.tasks.base import Task
from attention_zoo.tasks.inputs import Input, Locations, add_locations, list_inputs, predict_rows
from attention_zoo.tasks.progress import Progress, report_predicted

Image = Any
"""A path, encoded bytes, a Pillow image or an array; see `data.read_image`."""


class ImageTask(Task):
    """Base class of tasks whose inputs are images.

    Attributes:
        image_size: every image is resized to a square with this side, in pixels.
    """

    inputs: ClassVar[tuple[Input, ...]] = (Input("images", "image"),)
    example_noun: ClassVar[str] = "images"
    image_size: int

    def is_single_input(self, inputs: Any) -> bool:
        """Return whether `inputs` is one image; see `Task.is_single_input`."""
        return is_image(inputs) or super().is_single_input(inputs)

    def name_input(self, number: int, value: Any) -> str:
        """Return the path of an image, or its number; see `Task.name_input`."""
        return name_image(number, value)

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

    def _predict_images(
        self,
        images: Iterable[Image],
        batch_size: int,
        on_error: str,
        predict_batch: Callable[[NDArray[np.uint8]], Iterable[Any]],
    ) -> list[Any]:
        """Return one result for each image, in order; images are read batch by batch.

        Args:
            images: images, or one array `(N, H, W, C)`.
            batch_size: maximum number of images in a batch.
            on_error: see `inputs.predict_rows`.
            predict_batch: returns the results of images `(B, H, W, C)`.
        """
        images = list_images(images, "predict")
        names, progress, results = name_images(images), Progress(len(images)), []
        for start in range(0, len(images), batch_size):
            batch = slice(start, start + batch_size)

            def read(rows: list[int], part: slice = batch) -> list[NDArray[np.uint8]]:
                pairs = list(zip(images[part], names[part], strict=True))
                return [self._read_image(*pairs[row]) for row in rows]

            def predict(_: list[int], read: list[NDArray[np.uint8]]) -> Iterable[Any]:
                return predict_batch(np.stack(read))

            count = len(images[batch])
            arguments = count, on_error, self.result_class, read, predict, names[batch]
            with progress:
                results += predict_rows(*arguments)
                report_predicted(count)
        return results


def list_images(images: Any, name: str) -> list[Any]:
    """Return images as a list; raise ValueError for one image instead of a list or `(N, H, W, C)`.

    `name` is the function, for the message.
    """
    if keras.ops.is_tensor(images):
        images = keras.ops.convert_to_numpy(images)
    return list_inputs(images, "image", name, is_image(images))


def is_image(value: Any) -> bool:
    """Return whether a value is one image, not a list of images or an array `(N, H, W, C)`."""
    from PIL.Image import Image as PillowImage

    if isinstance(value, Path | PillowImage):
        return True
    is_array = isinstance(value, np.ndarray) or keras.ops.is_tensor(value)
    return bool(is_array and len(value.shape) in (2, 3))


def name_image(number: int, value: Image) -> str:
    """Return the name of an image: its path, or "image" and its number."""
    return str(value) if isinstance(value, str | Path) else f"image {number}"


def name_images(images: Sequence[Image]) -> list[str]:
    """Return the name of each image: its path, or "image" and its number from 0."""
    return [name_image(row, image) for row, image in enumerate(images)]
