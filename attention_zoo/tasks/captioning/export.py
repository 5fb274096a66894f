"""Exported captioner of encoded images: image decoding, search and attention in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.decoding import Rule
from attention_zoo.export.graph_images import square_images
from attention_zoo.export.graph_tokenizer import GraphTokenizer
from attention_zoo.export.modules import SearchModule, string_signature


class CaptioningModule(SearchModule):
    """`task.predict` of encoded images in core TensorFlow operations.

    The results are those of `predict`. A batch with a damaged image, or one that `data.graph_image`
    rejects, is rejected as a whole (`InvalidArgumentError`).
    """

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        super().__init__(task, rules, GraphTokenizer(task.tokenizer))
        self._side = task.image_size
        self._grid = task.model.grid_shape((1, self._side, self._side, 3))

    @string_signature("image")
    def serve(self, image: tf.Tensor) -> dict[str, tf.Tensor]:
        """Caption encoded images `(B,)`.

        Returns:
            The outputs of `format_hypotheses`; for models that attend to image regions, `attention`
            (B, n, L, h, w) over a grid on the image.
        """
        outputs = self.format_hypotheses(self._search(square_images(image, self._side)))
        attention = outputs.pop("attention", None)
        if self._grid != (1, 1):
            shape = tf.concat([tf.shape(attention)[:3], self._grid], 0)
            outputs["attention"] = tf.reshape(attention, shape)
        return outputs
