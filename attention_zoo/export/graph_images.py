"""Batches of encoded images as square images of one size."""

from __future__ import annotations

import tensorflow as tf

from attention_zoo.data.images.formats import JPEG, PNG, WEBP
from attention_zoo.data.images.graph_decoding import decode, find_decoder, finish_image
from attention_zoo.data.images.graph_headers import has_valid_header
from attention_zoo.data.images.images import MAX_PIXELS, MAX_SCANS
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
    is_valid, decoder = tf.map_fn(_check_header, encoded, fn_output_signature=(tf.bool, tf.int32))
    rows, pixels = _decode_images(tf.where(is_valid)[:, 0], encoded, decoder)

    def finish(image: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        decoded = tf.ensure_shape(tf.io.parse_tensor(image[0], tf.uint8), [None, None, None])
        return finish_image(decoded, image[1], (side, side))

    squares = tf.map_fn(
        finish,
        (pixels, tf.gather(encoded, rows)),
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


def _decode_images(
    rows: tf.Tensor, encoded: tf.Tensor, decoder: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Decode images without those that are damaged.

    A dataset can drop the elements that raise errors; other operations cannot. Each call creates
    the dataset, and optimizes the function that it maps. So this function only decodes.

    Args:
        rows: indices of the images.
        encoded, decoder: all images `(B,)`, and the index of the decoder of each.

    Returns:
        The indices of the images without damage, and their pixels, as serialized tensors.
    """
    images = tf.data.Dataset.from_tensor_slices(
        (rows, tf.gather(encoded, rows), tf.gather(decoder, rows))
    )
    images = images.map(
        lambda row, image, decoder: (
            row,
            tf.io.serialize_tensor(decode(image, decoder, MAX_PIXELS)),
        ),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    images = images.ignore_errors(log_warning=False).batch(tf.maximum(tf.size(rows, tf.int64), 1))
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    none = tf.zeros([0], tf.int64), tf.zeros([0], tf.string)
    decoded: tuple[tf.Tensor, tf.Tensor] = images.with_options(options).reduce(
        none, lambda _, batch: batch
    )
    return decoded


def _is_known_format(encoded: tf.Tensor) -> tf.Tensor:
    """Return whether each of the encoded images `(B,)` begins as a JPEG, PNG or WebP."""
    heads = tf.strings.substr(encoded, 0, 12)
    starts = [tf.strings.substr(heads, 0, len(start)) == start for start in (JPEG, PNG, WEBP)]
    padded = tf.strings.join([heads, "\0" * 12])  # `substr` fails beyond the end of a string
    starts[-1] &= tf.strings.substr(padded, 8, 4) == "WEBP"  # RIFF also begins AVI and WAV
    return tf.reduce_any(tf.stack(starts), axis=0)
