"""Glimpses: classify an image from a sequence of small patches (recurrent attention)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo import models
from attention_zoo.data import LabelledBatches, LabelledImages, read_image
from attention_zoo.decoding import SearchOptions
from attention_zoo.registry import did_you_mean
from attention_zoo.tasks.task import TASKS, read_task_file, reading_options, write_task

Image = str | Path | bytes | NDArray[np.uint8]
LUMINANCE = (299, 587, 114)
"""Weights of red, green and blue (ITU-R BT.601) in thousandths; integer sums are exact."""


@dataclass(frozen=True)
class Glimpsed:
    """The predicted class of an image, and its glimpses.

    Args:
        text: the predicted class.
        score: its log-probability.
        tokens: the class predicted after each of G glimpses; the last one is the result.
        locations: `(G, 2)`, vertical and horizontal, from -1 (top, left) to 1 (bottom, right).
        seen: `(G, scales, g, g, C)`, the patches at these locations, from 0 to 1.
        image: `(H, W, C)`, uint8, the model's input.
        probabilities: the probability of each class, by name.
        alternatives: always empty; `probabilities` has the other classes.
        unknown, cut: always empty and False; other results use them.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    locations: np.ndarray
    seen: np.ndarray
    image: np.ndarray
    probabilities: dict[str, float]
    alternatives: tuple[Glimpsed, ...] = ()
    unknown: tuple[int, ...] = ()
    cut: bool = False

    @property
    def attention(self) -> np.ndarray:
        """The glimpse locations."""
        return self.locations


@TASKS.register("glimpses")
class Glimpses:
    """Image classification by glimpses: a recurrent attention model and its class names.

    Args:
        model: a `models.RecurrentAttentionModel`.
        classes: class names, by class index.
        search: only `batch_size` is used, the number of images in a batch.
        image_size: images are resized to a square with this side, in pixels. It must be the size
            of the model's images, which is the default.

    Raises:
        ValueError: if the model is of another class, has another number of classes, or takes images
            that are not squares of `image_size`.
    """

    name: ClassVar[str] = "glimpses"
    metric_names: ClassVar[tuple[str, ...]] = ("accuracy",)
    limits: ClassVar[tuple[str, ...]] = ("image_size",)
    examples: ClassVar[str] = "images"

    def __init__(
        self,
        model: keras.Model,
        classes: Sequence[str],
        search: SearchOptions | None = None,
        image_size: int | None = None,
    ) -> None:
        if not isinstance(model, models.RecurrentAttentionModel):
            raise ValueError(
                f"model must be a models.RecurrentAttentionModel, got {type(model).__name__}"
            )
        if len(classes) != model.settings["classes"]:
            raise ValueError(
                f"classes has {len(classes)} names, but the model has {model.settings['classes']}"
                " classes; give one name for each"
            )
        height, width, _ = model.settings["image_shape"]
        if not height == width == (image_size or height):
            raise ValueError(
                f"the model takes images of {height} x {width} pixels; use a model of square"
                f" images, and image_size={height}"
            )
        self.model: Any = model
        self.classes = list(classes)
        self.search = search or SearchOptions()
        self.image_size = height

    # Training.

    def batches(self, examples: LabelledImages, batch_size: int, seed: int) -> LabelledBatches:
        """Return batches of images and class indices; raise ValueError for an unknown class."""
        return LabelledBatches(examples.images, self._labels(examples), batch_size, seed)

    def within_limits(self, examples: LabelledImages) -> LabelledImages:
        """Return all examples; images have no length limit."""
        return examples

    def _labels(self, examples: LabelledImages) -> NDArray[np.int32]:
        """Return the model's class index of each image."""
        numbers = {name: number for number, name in enumerate(self.classes)}
        for name in examples.classes:
            if name not in numbers:
                raise ValueError(
                    f"{examples.origin}: unknown class {name!r}{did_you_mean(name, numbers)}"
                    f" (known: {', '.join(numbers)})"
                )
        own = np.array([numbers[name] for name in examples.classes], np.int32)
        return own[examples.labels]

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return `losses.GlimpseLoss`: cross-entropy of the class, REINFORCE for the locations."""
        made: keras.losses.Loss = self.model.make_loss(label_smoothing)
        return made

    # Prediction.

    def predict(self, images: Sequence[Image], **search_overrides: Any) -> list[Glimpsed]:
        """Classify each image, in order; a result does not depend on the other images.

        Args:
            images: paths, encoded images or arrays, see `data.read_image`, or one array `(N, H, W,
                C)`; colour images are converted to grey if the model takes one channel.
            **search_overrides: `batch_size` for this call.

        Raises:
            ValueError: if an image cannot be read, or an option is unknown.
        """
        one = getattr(images, "ndim", 4) < 4
        if one or isinstance(images, str | Path | bytes):
            raise ValueError("predict takes a list of images; write predict([image])")
        size = self.search.override(**search_overrides).batch_size
        read = [
            self._read(image, None if isinstance(image, str | Path) else f"image {row}")
            for row, image in enumerate(images)
        ]
        answers: list[Glimpsed] = []
        for start in range(0, len(read), size):
            some = np.stack(read[start : start + size])
            path = self.model.glimpse_path(some)
            parts = [ops.convert_to_numpy(part) for part in path]
            answers += [
                self._answer(some[row], *(x[row] for x in parts)) for row in range(len(some))
            ]
        return answers

    def _read(self, image: Any, where: str | None) -> NDArray[np.uint8]:
        """Read an image with the size and the channels of the model's input."""
        read = read_image(image, self.image_size, where)
        if self.model.settings["image_shape"][-1] == 3:
            return read
        light = read @ np.array(LUMINANCE)
        return np.rint(light / sum(LUMINANCE))[..., None].astype(np.uint8)

    def _answer(
        self, image: np.ndarray, locations: np.ndarray, seen: np.ndarray, logits: np.ndarray
    ) -> Glimpsed:
        shares = np.exp(logits[-1].astype("float64") - logits[-1].max())
        shares /= shares.sum()
        best = int(logits[-1].argmax())
        return Glimpsed(
            text=self.classes[best],
            score=float(np.log(shares[best])),
            tokens=tuple(self.classes[n] for n in logits.argmax(-1)),
            locations=locations,
            seen=seen,
            image=image,
            probabilities=dict(zip(self.classes, map(float, shares), strict=True)),
        )

    def check_sources(self, texts: Sequence[str], places: Sequence[str] | None = None) -> None:
        """Raise ValueError for an image file that `predict` rejects; `places` are its locations."""
        for row, path in enumerate(texts):
            place = places[row] if places else f"image {row}"
            if not path:
                raise ValueError(f"{place}: is empty; give the path of an image")
            self._read(path, f"{place}: {path}")

    def unknown_characters(self, text: str) -> list[str]:
        """Return an empty list; an image has no characters."""
        return []

    # Evaluation.

    def evaluate(self, examples: LabelledImages, **search_overrides: Any) -> dict[str, Any]:
        """Return the number of `images`, and `accuracy` and `error` in percent."""
        answers = self.predict(list(examples.images), **search_overrides)
        right = [
            answer.text == examples.classes[label]
            for answer, label in zip(answers, examples.labels, strict=True)
        ]
        accuracy = 100.0 * float(np.mean(right))
        return {"images": len(right), "accuracy": accuracy, "error": 100.0 - accuracy}

    # Files.

    def save(self, folder: str | Path) -> None:
        """Write model, classes and options into a folder, `task.json` last."""
        write_task(self, folder, classes=self.classes)

    @classmethod
    def load(cls, folder: str | Path) -> Glimpses:
        """Load a folder written by `save`; raise ValueError if it is damaged."""
        folder = Path(folder)
        content = read_task_file(folder)
        with reading_options(folder):
            classes, size = list(content["classes"]), int(content["image_size"])
            options = SearchOptions(**content["search"])
        return cls(models.from_preset(folder / "model"), classes, options, size)
