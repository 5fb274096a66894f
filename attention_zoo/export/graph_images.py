"""Encoded images, many at once, as squares of one size."""

from __future__ import annotations

import functools

import tensorflow as tf

from attention_zoo.data import graph_image


def square_images(encoded: tf.Tensor, side: int) -> tf.Tensor:
    """Images `(B, side, side, 3)`, uint8, as `data.read_image` gives them, of a graph's strings.

    An image that `data.graph_image` does not read refuses the batch (`InvalidArgumentError`).

    Args:
        encoded: `(B,)`, JPEG or PNG each.
        side: in pixels.
    """
    read = functools.partial(graph_image, size=side)
    square = tf.TensorSpec([side, side, 3], tf.uint8)
    return tf.map_fn(read, encoded, fn_output_signature=square)
