"""Checks of the headers of encoded images in TensorFlow ops, before anything is decoded."""

from __future__ import annotations

import tensorflow as tf

from attention_zoo.data.images.formats import JPEG, PNG, SCAN, WEBP
from attention_zoo.data.images.graph_orientation import combine_bytes

_HEAD = 30
"""Number of bytes of a WebP header up to the image size. Every PNG is longer."""

Header = tuple[tf.Tensor, tf.Tensor]
"""The sides of an image, `(2,)` int64, and its number of scans or frames."""


def assert_valid_header(encoded: tf.Tensor, max_pixels: int, max_scans: int) -> tf.Operation:
    """Return an assertion of the checks of `read_image` that precede decoding.

    Args:
        encoded: a scalar string tensor.
        max_pixels: maximum number of pixels.
        max_scans: maximum number of scans of a JPEG.
    """

    def starts_with(text: bytes, at: int = 0) -> tf.Tensor:
        return tf.strings.substr(encoded, at, len(text)) == text

    is_png, is_webp = starts_with(PNG), starts_with(WEBP) & starts_with(b"WEBP", 8)
    is_complete = tf.strings.length(encoded) >= _HEAD
    message = ["the image is not a JPEG, PNG or WebP, or its header is truncated"]
    is_known = tf.debugging.Assert(starts_with(JPEG) | ((is_png | is_webp) & is_complete), message)
    with tf.control_dependencies([is_known]):
        sides, count = tf.case(
            [(is_png, lambda: _read_png(encoded)), (is_webp, lambda: _read_webp(encoded))],
            default=lambda: _read_jpeg(encoded),
        )
    is_small = (tf.reduce_min(sides) > 0) & (tf.reduce_prod(sides) <= max_pixels)
    is_simple = count <= tf.where(starts_with(JPEG), max_scans, 1)
    reason = "the image has no pixels, too many pixels or scans, or is animated"
    return tf.debugging.Assert(is_simple & is_small, [reason])


def _read_jpeg(encoded: tf.Tensor) -> Header:
    shape = tf.cast(tf.image.extract_jpeg_shape(encoded), tf.int64)
    scans = tf.size(tf.strings.split(encoded[None], SCAN).values) - 1
    return shape[:2], scans


def _read_png(encoded: tf.Tensor) -> Header:
    return combine_bytes(tf.reshape(_read_bytes(encoded, 16, 8), [2, 4])), tf.constant(1)


def _read_webp(encoded: tf.Tensor) -> Header:
    """Read the first chunk: VP8X (with a flag for animations), VP8L (lossless) or VP8."""
    head = _read_bytes(encoded, 12, 18)
    is_extended, is_lossless = head[3] == ord("X"), head[3] == ord("L")

    def read_side(first: int, last: int) -> tf.Tensor:
        return combine_bytes(head[first:last], little=True)

    packed = read_side(9, 13)  # width and height of 14 bits each
    width, height = tf.case(
        [
            (is_extended, lambda: (read_side(12, 15) + 1, read_side(15, 18) + 1)),
            (is_lossless, lambda: (packed % 2**14 + 1, packed // 2**14 % 2**14 + 1)),
        ],
        default=lambda: (read_side(14, 16) % 2**14, read_side(16, 18) % 2**14),
    )
    is_animated = is_extended & (head[8] // 2 % 2 == 1)
    return tf.stack([height, width]), 1 + tf.cast(is_animated, tf.int32)  # two or more frames


def _read_bytes(encoded: tf.Tensor, start: int, count: int) -> tf.Tensor:
    raw = tf.io.decode_raw(tf.strings.substr(encoded, start, count), tf.uint8)
    return tf.ensure_shape(tf.cast(raw, tf.int64), [count])
