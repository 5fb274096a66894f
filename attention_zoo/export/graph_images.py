"""Batches of encoded images as square images of one size."""

from __future__ import annotations

import functools

import tensorflow as tf

from attention_zoo.data import graph_image


def square_images(encoded: tf.Tensor, side: int) -> tf.Tensor:
    """Decode images in a graph to `(B, side, side, 3)`, uint8, as `data.read_image` does.

    If `data.graph_image` rejects one image, the whole batch is rejected (`InvalidArgumentError`).

    Args:
        encoded: `(B,)` strings, each a JPEG or PNG.
        side: in pixels.
    """
    read = functools.partial(graph_image, size=side)
    square = tf.TensorSpec([side, side, 3], tf.uint8)
    return tf.map_fn(read, encoded, fn_output_signature=square)
