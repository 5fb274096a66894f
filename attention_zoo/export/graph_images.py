"""Batches of encoded images as square images of one size."""

from __future__ import annotations

import tensorflow as tf

from attention_zoo.data import graph_image
from attention_zoo.data.images.formats import JPEG, PNG, WEBP
from attention_zoo.export.checks import get_first_error

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

    def read(row: tf.Tensor, image: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return row, graph_image(image, side)

    # A dataset can drop the elements that raise errors; other operations cannot.
    count = tf.size(encoded)
    images = tf.data.Dataset.from_tensor_slices((tf.range(count), encoded))
    images = images.map(read, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    images = images.ignore_errors(log_warning=False).batch(tf.maximum(tf.cast(count, "int64"), 1))
    none = tf.zeros([0], "int32"), tf.zeros([0, side, side, 3], "uint8")
    rows, valid = images.reduce(none, lambda _, batch: batch)
    failed = tf.tensor_scatter_nd_update(
        tf.fill([count], True), rows[:, None], tf.fill(tf.shape(rows), False)
    )
    is_known = _is_known_format(encoded)
    return get_first_error((failed & ~is_known, UNKNOWN_FORMAT), (failed, UNREADABLE)), valid


def _is_known_format(encoded: tf.Tensor) -> tf.Tensor:
    """Return whether each of the encoded images `(B,)` begins as a JPEG, PNG or WebP."""
    heads = tf.strings.substr(encoded, 0, 12)
    starts = [tf.strings.substr(heads, 0, len(start)) == start for start in (JPEG, PNG, WEBP)]
    padded = tf.strings.join([heads, "\0" * 12])  # `substr` fails beyond the end of a string
    starts[-1] &= tf.strings.substr(padded, 8, 4) == "WEBP"  # RIFF also begins AVI and WAV
    return tf.reduce_any(tf.stack(starts), axis=0)
