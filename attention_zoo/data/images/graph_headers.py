"""Checks of the headers of encoded images in TensorFlow ops, before anything is decoded."""

from __future__ import annotations

import tensorflow as tf

from attention_zoo.data.images.formats import JPEG, PNG, SCAN, WEBP
from attention_zoo.data.images.graph_orientation import combine_bytes

_HEAD = 30
"""Number of bytes of a WebP header up to the image size. Every PNG is longer."""

_INVALID_HEADER = "the image has no pixels, too many pixels or scans, or is animated"

Header = tuple[tf.Tensor, tf.Tensor]
"""The sides of an image, `(2,)` int64, and its number of scans or frames."""


def assert_valid_header(encoded: tf.Tensor, max_pixels: int, max_scans: int) -> tf.Operation:
    """Assert that a header is valid, before decoding; `assert_jpeg_size` checks JPEG sizes.

    Args:
        encoded: a scalar string tensor.
        max_pixels: maximum number of pixels.
        max_scans: maximum number of scans of a JPEG.
    """
    message = ["the image is not a JPEG, PNG or WebP, or its header is truncated"]
    with tf.control_dependencies([tf.debugging.Assert(_is_known(encoded), message)]):
        is_valid = has_valid_header(encoded, max_pixels, max_scans)
    return tf.debugging.Assert(is_valid, [_INVALID_HEADER])


def has_valid_header(encoded: tf.Tensor, max_pixels: int, max_scans: int) -> tf.Tensor:
    """Return whether an image has a known format, a permitted size and number of scans, one frame.

    Arguments as in `assert_valid_header`. Never raises. The size of a JPEG is not checked; see
    `assert_jpeg_size`.
    """
    is_known, is_png = _is_known(encoded), _starts_with(encoded, PNG)
    is_jpeg = _starts_with(encoded, JPEG)
    unknown_size = tf.ones([2], tf.int64)
    sides, count = tf.case(
        [
            (is_known & is_png, lambda: _read_png(encoded)),
            (is_known & _is_webp(encoded), lambda: _read_webp(encoded)),
            (is_jpeg, lambda: (unknown_size, _count_scans(encoded))),
        ],
        default=lambda: (unknown_size, tf.constant(0)),
    )
    is_simple = count <= tf.where(is_jpeg, max_scans, 1)
    return is_known & is_simple & _is_small(sides, max_pixels)


def assert_jpeg_size(encoded: tf.Tensor, max_pixels: int) -> tf.Operation:
    """Return an assertion of the number of pixels of a JPEG; damaged headers raise errors too."""
    sides = tf.cast(tf.image.extract_jpeg_shape(encoded), tf.int64)[:2]
    return tf.debugging.Assert(_is_small(sides, max_pixels), [_INVALID_HEADER])


def _starts_with(encoded: tf.Tensor, text: bytes, at: int = 0) -> tf.Tensor:
    """Return whether the bytes from an offset begin with `text`."""
    head = tf.strings.substr(encoded, 0, _HEAD)
    padded = tf.strings.join([head, b"\0" * _HEAD])  # `substr` fails beyond the end of a string
    return tf.strings.substr(padded, at, len(text)) == text


def _is_webp(encoded: tf.Tensor) -> tf.Tensor:
    return _starts_with(encoded, WEBP) & _starts_with(encoded, b"WEBP", 8)


def _is_known(encoded: tf.Tensor) -> tf.Tensor:
    """Return whether bytes begin as a JPEG, or with a whole header of a PNG or WebP."""
    has_head = tf.strings.length(encoded) >= _HEAD
    is_other = _starts_with(encoded, PNG) | _is_webp(encoded)
    return _starts_with(encoded, JPEG) | (is_other & has_head)


def _is_small(sides: tf.Tensor, max_pixels: int) -> tf.Tensor:
    is_positive = tf.reduce_min(sides) > 0
    return is_positive & (sides[0] <= max_pixels // tf.maximum(sides[1], 1))  # no overflow


def _count_scans(encoded: tf.Tensor) -> tf.Tensor:
    """Return the number of scans of a JPEG."""
    return tf.size(tf.strings.split(encoded[None], SCAN).values) - 1


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
