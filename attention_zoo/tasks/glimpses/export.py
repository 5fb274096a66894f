"""Exported glimpse classifier of encoded images: decoding, glimpses and class in one graph."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from attention_zoo.export.checks import serve_valid_rows
from attention_zoo.export.graph_images import square_images
from attention_zoo.export.modules import STRINGS, Inputs, TaskModule
from attention_zoo.tasks.glimpses.grey import LUMINANCE


class GlimpsesModule(TaskModule):
    """`task.predict` of encoded images in core TensorFlow operations.

    The results are those of `predict`; each location is the mean of its distribution.

    Args:
        task: a `tasks.Glimpses`.
    """

    inputs: ClassVar[Inputs] = {"image": STRINGS}

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self._glimpse_path = task.model.glimpse_path
        self._names = tf.constant(task.classes)
        self._side = task.image_size
        self._grey = task.model.settings["image_shape"][-1] != 3

    def _serve(self, image: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classify encoded images `(B,)`.

        Returns:
            The outputs of `format_outputs` and `serve_valid_rows`.
        """
        errors, images = square_images(image, self._side)
        images = grey_images(images) if self._grey else images
        return serve_valid_rows(
            errors, lambda rows: self.format_outputs(self._glimpse_path(images))
        )

    def format_outputs(self, path: Any) -> dict[str, tf.Tensor]:
        """Return the outputs of the signature.

        Args:
            path: a `models.GlimpsePath` of B images, G glimpses and K classes.

        Returns:
            `text` (B,), the class; `scores` (B,), its log probability; `classes` (B, K) strings and
            `probabilities` (B, K), likeliest first; `locations` (B, G, 2), the glimpse locations
            (vertical, horizontal), from -1 (top, left) to 1 (bottom, right); `tokens` (B, G)
            strings, the class predicted after each glimpse.
        """
        logits = tf.cast(path.logits, "float64")
        last = tf.nn.log_softmax(logits[:, -1])
        order = tf.argsort(logits[:, -1], direction="DESCENDING", stable=True)
        shares = tf.gather(last, order, batch_dims=1)
        classes = tf.gather(self._names, order)
        return {
            "text": classes[:, 0],
            "scores": tf.cast(shares[:, 0], "float32"),
            "classes": classes,
            "probabilities": tf.cast(tf.exp(shares), "float32"),
            "locations": tf.cast(path.locations, "float32"),
            "tokens": tf.gather(self._names, tf.argmax(logits, axis=-1)),
        }


def grey_images(images: tf.Tensor) -> tf.Tensor:
    """Convert images `(..., 3)` to grey `(..., 1)`, both uint8, with the levels of the task."""
    light = tf.reduce_sum(tf.cast(images, "int32") * LUMINANCE, axis=-1, keepdims=True)
    return tf.cast(tf.round(tf.cast(light, "float64") / sum(LUMINANCE)), tf.uint8)
