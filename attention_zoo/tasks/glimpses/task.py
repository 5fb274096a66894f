"""Glimpses: classify an image from a sequence of small patches (recurrent attention)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo import models
from attention_zoo.data import LabelledBatches, LabelledImages
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.metrics import exact_match
from attention_zoo.registry import Registry, check_known
from attention_zoo.tasks.building import build_model, check_model, naming_preset
from attention_zoo.tasks.glimpses.corpora import LABELLED_IMAGES
from attention_zoo.tasks.glimpses.grey import to_grey
from attention_zoo.tasks.glimpses.result import GlimpseResult
from attention_zoo.tasks.images import Image, ImageTask
from attention_zoo.tasks.inputs import NAN_LOGITS, refuse_rules
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.result import check_plottable


@TASKS.register("glimpses")
class Glimpses(ImageTask):
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
    corpora: ClassVar[Registry] = LABELLED_IMAGES
    limits: ClassVar[tuple[str, ...]] = ("image_size",)
    tokenizer_names: ClassVar[tuple[str, ...]] = ()
    uses_beam_search: ClassVar[bool] = False
    used_search_options = ("batch_size",)
    result_class = GlimpseResult
    card_metrics: ClassVar[Mapping[str, str]] = {"images": "images", "error": "error, %"}

    def __init__(
        self,
        model: keras.Model,
        classes: Sequence[str],
        search: SearchOptions | None = None,
        image_size: int | None = None,
    ) -> None:
        check_model(model, models.RecurrentAttentionModel)
        self.model: Any = model
        count = self.model.settings["classes"]
        if len(classes) != count:
            raise ValueError(
                f"classes has {len(classes)} names, but the model has {count} classes; give one"
                " name for each"
            )
        height, width, _ = self.model.settings["image_shape"]
        if not height == width == (image_size or height):
            raise ValueError(
                f"the model takes images of {height} x {width} pixels; use a model of square"
                f" images, and image_size={height}"
            )
        self.classes = list(classes)
        self.search = search or SearchOptions()
        self.image_size = height

    @classmethod
    def from_recipe(cls, recipe: Any, train: LabelledImages) -> Self:
        """Build a glimpse model for the image shape and the classes of the training split."""
        shape = list(train.images.shape[1:])
        model = build_model(recipe.model, image_shape=shape, classes=len(train.classes))
        with naming_preset(recipe.model):
            return cls(model, train.classes, **cls.recipe_options(recipe))

    # Training.

    def make_batches(self, examples: LabelledImages, batch_size: int, seed: int) -> LabelledBatches:
        """Return batches of images and class indices; raise ValueError for an unknown class."""
        numbers = {name: number for number, name in enumerate(self.classes)}
        check_known(f"{examples.origin}: unknown class", examples.classes, numbers)
        labels = np.array([numbers[name] for name in examples.classes], np.int32)[examples.labels]
        return LabelledBatches(examples.images, labels, batch_size, seed)

    # Prediction.

    def predict(
        self, images: Iterable[Image], *, on_error: str = "raise", **search_overrides: Any
    ) -> list[GlimpseResult]:
        """Classify each image, in order; a result does not depend on the other images.

        Args:
            images: paths, encoded images, Pillow images or arrays, see `data.read_image`, or one
                array `(N, H, W, C)`; colour images are converted to grey if the model takes one
                channel.
            on_error: "raise", or "skip": see `Task.predict`.
            **search_overrides: `batch_size` for this call.

        Raises:
            ValueError: if an image cannot be read, or an option is unknown.
        """
        size = self.override_search(**search_overrides).batch_size

        def classify(batch: NDArray[np.uint8]) -> Iterable[GlimpseResult]:
            path = map(ops.convert_to_numpy, self.model.glimpse_path(batch))
            return map(self._make_result, batch, *path)

        return self._predict_images(images, size, on_error, classify)

    def _read_image(self, image: Image, name: str) -> NDArray[np.uint8]:
        """Read an image with the size and the channels of the model's input."""
        rgb = super()._read_image(image, name)
        return rgb if self.model.settings["image_shape"][-1] == 3 else to_grey(rgb)

    def _make_result(
        self, image: np.ndarray, locations: np.ndarray, patches: np.ndarray, logits: np.ndarray
    ) -> GlimpseResult:
        if np.isnan(logits).any():
            return GlimpseResult.failed(NAN_LOGITS)
        shares = np.exp(logits[-1].astype("float64") - logits[-1].max())
        shares /= shares.sum()
        best = int(logits[-1].argmax())
        return GlimpseResult(
            text=self.classes[best],
            score=float(np.log(shares[best])),
            tokens=tuple(self.classes[n] for n in logits.argmax(-1)),
            attention=locations.copy(),
            patches=patches.copy(),
            image=image.copy(),
            probabilities=dict(zip(self.classes, map(float, shares), strict=True)),
        )

    def predict_example(self, examples: LabelledImages, row: int) -> tuple[GlimpseResult, str]:
        """Return the result of one image, and its class beside the predicted one."""
        (result,) = self.predict([examples.images[row]])
        return result, f'"{examples.classes[examples.labels[row]]}" -> "{result.text}"'

    # Evaluation.

    def evaluate(self, examples: LabelledImages, **search_overrides: Any) -> dict[str, Any]:
        """Return the number of `images`, and `accuracy` and `error` in percent."""
        results = self.predict(list(examples.images), **search_overrides)
        labels = [examples.classes[label] for label in examples.labels]
        accuracy = exact_match([result.text for result in results], labels)
        return {"images": len(results), "accuracy": accuracy, "error": 100.0 - accuracy}

    # Reports, saving and export.

    def plot(self, result: GlimpseResult, path: str | Path | None = None) -> Any:
        """Return a figure of the path of glimpses; a `.gif` file is animated. See `Task.plot`."""
        from attention_zoo import inspection

        check_plottable(result)
        _, scales, size, *_ = result.patches.shape
        glimpses = result.image, result.locations, size, scales
        labels: dict[str, Any] = {"answers": result.tokens, "title": result.text}
        if path is not None and Path(path).suffix == ".gif":
            inspection.write_glimpse_gif(*glimpses, path=path, **labels)
            path = None
        return inspection.plot_glimpse_path(*glimpses, path, **labels)

    def get_saved_fields(self) -> dict[str, Any]:
        """Return the class names."""
        return {"classes": self.classes}

    @classmethod
    def load_fields(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return the class names."""
        return {"classes": list(content["classes"])}

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return the classifier as a `tf.Module` that takes encoded images."""
        from attention_zoo.tasks.glimpses.export import GlimpsesModule

        refuse_rules(rules, self.name)
        return GlimpsesModule(self)
