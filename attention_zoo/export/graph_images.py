"""Batches of encoded images as square images of one size."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attention_zoo.data.images.formats import JPEG, PNG, WEBP
from attention_zoo.data.images.graph_decoding import convert_to_rgb, decode, find_decoder
from attention_zoo.data.images.graph_headers import has_valid_header
from attention_zoo.data.images.images import MAX_PIXELS, MAX_SCANS
from attention_zoo.export.checks import get_first_error

PARALLEL_IMAGES = 2
"""Images that are decoded at a time, which bounds the memory of a batch."""

UNKNOWN_FORMAT = "the image is not a JPEG, PNG or WebP; give a JPEG, PNG or WebP image"
UNREADABLE = (
    "the image is damaged, truncated or animated, or has too many pixels or scans;"
    " give an intact, smaller image of one frame"
)


def square_images(encoded: tf.Tensor, side: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Decode images in a graph to squares, as `data.read_image` does.

    Args:
        encoded: `(B,)` strings, see `data.graph_image`.
        side: in pixels.

    Returns:
        Message of each image `(B,)`, "" if it is valid; and the G valid images `(G, side, side, 3)`
        in order, uint8.
    """

    def read(row: tf.Tensor) -> tf.Tensor:
        pixels = decode(encoded[row], decoder[row], MAX_PIXELS)
        return convert_to_rgb(pixels, encoded[row], (side, side))

    with tf.device("CPU"):
        is_valid, decoder = tf.map_fn(
            _check_header, encoded, fn_output_signature=(tf.bool, tf.int32)
        )
        rows = _find_decodable(tf.where(is_valid)[:, 0], encoded, decoder)
        squares = tf.map_fn(
            read,
            rows,
            parallel_iterations=PARALLEL_IMAGES,
            fn_output_signature=tf.TensorSpec([side, side, 3], tf.uint8),
        )
        failed = tf.tensor_scatter_nd_update(
            tf.fill(tf.shape(encoded), True), rows[:, None], tf.fill(tf.shape(rows), False)
        )
        is_known = _is_known_format(encoded)
    return get_first_error((failed & ~is_known, UNKNOWN_FORMAT), (failed, UNREADABLE)), squares


def _check_header(image: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return whether an image has a valid header, and the index of its decoder."""
    is_valid = has_valid_header(image, MAX_PIXELS, MAX_SCANS)
    return is_valid, tf.cond(is_valid, lambda: find_decoder(image), lambda: 0)


def _find_decodable(rows: tf.Tensor, encoded: tf.Tensor, decoder: tf.Tensor) -> tf.Tensor:
    """Return the indices of the images that can be decoded.

    Only a dataset can drop elements that raise errors. Each call of the graph creates the dataset
    again and optimizes the function that it maps, in a time that grows with its size. So the mapped
    function only decodes, and the images are decoded again outside of it.

    Args:
        rows: indices of images with a valid header.
        encoded, decoder: all images `(B,)`, and the index of the decoder of each.
    """

    def count_pixels(row: tf.Tensor, image: tf.Tensor, kind: tf.Tensor) -> tuple[Any, Any]:
        # Without its result, decoding would be removed from the graph.
        return row, tf.size(decode(image, kind, MAX_PIXELS))

    images = tf.data.Dataset.from_tensor_slices(
        (rows, tf.gather(encoded, rows), tf.gather(decoder, rows))
    )
    images = images.map(count_pixels, num_parallel_calls=PARALLEL_IMAGES, deterministic=True)
    images = images.ignore_errors(log_warning=False).batch(tf.maximum(tf.size(rows, tf.int64), 1))
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    none = tf.zeros([0], tf.int64), tf.zeros([0], tf.int32)
    return images.with_options(options).reduce(none, lambda _, batch: batch)[0]


def _is_known_format(encoded: tf.Tensor) -> tf.Tensor:
    """Return whether each of the encoded images `(B,)` begins as a JPEG, PNG or WebP."""
    heads = tf.strings.substr(encoded, 0, 12)
    starts = [tf.strings.substr(heads, 0, len(start)) == start for start in (JPEG, PNG, WEBP)]
    padded = tf.strings.join([heads, "\0" * 12])  # `substr` fails beyond the end of a string
    starts[-1] &= tf.strings.substr(padded, 8, 4) == "WEBP"  # RIFF also begins AVI and WAV
    return tf.reduce_any(tf.stack(starts), axis=0)
