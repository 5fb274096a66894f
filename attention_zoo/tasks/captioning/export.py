"""A served captioner of encoded images: image decoding, search and attention in one graph."""

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

    The results are those of `predict`. A batch with a damaged image, or one that `data.graph_image`
    rejects, is rejected as a whole (`InvalidArgumentError`).

    Args:
        task: a `tasks.Captioning`.
        rules: additional decoding rules.

    Raises:
        ValueError: if the tokenizer is not a registered `data.Tokenizer`.
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
        autograph=False,  # autograph would wrap the errors of the search
    )
    def serve(self, image: tf.Tensor) -> dict[str, tf.Tensor]:
        """Caption encoded images `(B,)`; see `answers` for the outputs."""
        return self.answers(self._search(square_images(image, self._side)))

    def answers(self, found: Any) -> dict[str, tf.Tensor]:
        """Return the outputs of the signature.

        Args:
            found: a `SearchResult`.

        Returns:
            `text` (B, n); `scores` (B, n); `lengths` (B, n), numbers of tokens without the end
            token; `finished` (B, n), False for a truncated output; `tokens` (B, n, L) strings;
            `token_scores` (B, n, L); and, for models that attend to image regions, `attention`
            (B, n, L, h, w) over a grid on the image. Past the length, tokens are "" and numbers are
            0. Hypotheses that are missing because the search finds fewer than n have score -inf.
        """
        lengths = found.lengths - tf.cast(found.finished, "int32")
        longest = tf.maximum(tf.reduce_max(found.lengths), 0)  # below 0 for an empty batch
        ids = found.tokens[:, :, :longest]
        generated = tf.range(longest) < lengths[..., None]
        served = {
            "text": self.words.text(tf.where(generated, self.words.surfaces(ids), "")),
            "scores": found.scores,
            "lengths": lengths,
            "finished": found.finished,
            "tokens": tf.where(generated, self.words.labels(ids), ""),
            "token_scores": found.token_scores[:, :, :longest],
        }
        if self._grid != (1, 1):
            attention_weights = found.attention[:, :, :longest]
            attention_weights = tf.where(
                generated[..., None], attention_weights, tf.zeros_like(attention_weights)
            )
            served["attention"] = tf.reshape(
                attention_weights, tf.concat([tf.shape(ids), self._grid], 0)
            )
        return served
