"""Exported captioner of encoded images: image decoding, search and attention in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from attention_zoo.decoding import Rule
from attention_zoo.export.checks import check_long, get_first_error, serve_valid_rows
from attention_zoo.export.graph_images import square_images
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer
from attention_zoo.export.modules import STRINGS, Inputs, SearchModule


class CaptioningModule(SearchModule):
    """`task.predict` of encoded images in core TensorFlow operations, with the same results."""

    inputs: ClassVar[Inputs] = {"image": STRINGS}

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        self._side = task.image_size
        self._num_positions = task.model.max_target_length
        self._grid = task.model.grid_shape((1, self._side, self._side, 3))
        super().__init__(task, rules, make_graph_tokenizer(task.tokenizer))

    def _serve(self, image: tf.Tensor, **values: tf.Tensor) -> dict[str, tf.Tensor]:
        """Caption encoded images `(B,)`.

        Returns:
            The outputs of `format_hypotheses` and `serve_valid_rows`; for models that attend to
            image regions, `attention` (B, n, L, h, w) over a grid on the image.
        """
        options = self._make_options(values)
        errors, images = square_images(image, self._side)

        def caption(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            outputs = self.format_hypotheses(self._search(images, options))
            attention = outputs.pop("attention", None)
            if self._grid != (1, 1):
                shape = tf.concat([tf.shape(attention)[:3], self._grid], 0)
                outputs["attention"] = tf.reshape(attention, shape)
            return outputs

        return serve_valid_rows(errors, caption)

    def _score(self, image: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        errors, images = square_images(image, self._side)
        targets, _ = self.tokenizer.encode(target)
        numbers = tf.cumsum(tf.cast(errors == "", "int32")) - 1  # of the valid images
        checks = [(errors != "", errors)]
        if self._num_positions is not None:
            checks.append(check_long(targets.row_lengths() + 1, self._num_positions))

        def score(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            chosen = tf.gather(images, tf.gather(numbers, rows))
            return self.score_targets(chosen, tf.gather(targets, rows))

        return serve_valid_rows(get_first_error(*checks), score)
