"""A captioner that takes encoded images: decoding, the search and its looks in one graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.decoding import Rule
from attention_zoo.export.graph_images import square_images
from attention_zoo.export.graph_tokenizer import GraphTokenizer


class ServedCaptioning(tf.Module):
    """`task.predict` of encoded images in core TensorFlow operations.

    Answers are as `predict` gives them; a batch with an image that is damaged, or that
    `data.graph_image` does not read, is refused whole (`InvalidArgumentError`).

    Args:
        task: a `tasks.Captioning`.
        rules: more of what may be taken at a step.

    Raises:
        ValueError: a tokenizer of another kind than those of `attention_zoo.data`.
    """

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        super().__init__(name="captioning")
        self.weights = [variable.value for variable in task.model.variables]
        self.words = GraphTokenizer(task.tokenizer)
        options = task.search_options()
        self._search = functools.partial(task.model.search, options=options, rules=rules)
        self._side = task.image_size
        self._grid = task.model.grid_shape((1, self._side, self._side, 3))

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="image")],
        autograph=False,  # which would wrap errors of the search in words of its own
    )
    def serve(self, image: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers to encoded images `(B,)`; see the docstring of `answers` for what they hold."""
        return self.answers(self._search(square_images(image, self._side)))

    def answers(self, found: Any) -> dict[str, tf.Tensor]:
        """What is served.

        Args:
            found: a `SearchResult`.

        Returns:
            `text` (B, n); `scores` (B, n); `lengths` (B, n), tokens of each answer without its end;
            `finished` (B, n), False where an answer was cut; `tokens` (B, n, L) strings;
            `token_scores` (B, n, L); and of models that look at places `attention` (B, n, L, h, w)
            of a grid over the image. Past the length tokens are "" and numbers are 0. Where the
            search finds fewer than n, score is -inf.
        """
        lengths = found.lengths - tf.cast(found.finished, "int32")
        longest = tf.maximum(tf.reduce_max(found.lengths), 0)  # of no answer it is below 0
        ids = found.tokens[:, :, :longest]
        said = tf.range(longest) < lengths[..., None]
        served = {
            "text": self.words.text(tf.where(said, self.words.surfaces(ids), "")),
            "scores": found.scores,
            "lengths": lengths,
            "finished": found.finished,
            "tokens": tf.where(said, self.words.labels(ids), ""),
            "token_scores": found.token_scores[:, :, :longest],
        }
        if self._grid != (1, 1):
            looks = found.attention[:, :, :longest]
            looks = tf.where(said[..., None], looks, tf.zeros_like(looks))
            served["attention"] = tf.reshape(looks, tf.concat([tf.shape(ids), self._grid], 0))
        return served
