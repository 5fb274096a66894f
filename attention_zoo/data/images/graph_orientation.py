"""EXIF orientation of JPEG, PNG and WebP images, and transparency of PNG, in TensorFlow ops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

ORIENTATION_TAG = 0x0112
MAX_SEGMENTS = 1 << 14
"""Maximum number of segments of a JPEG, or chunks of others, that are searched for EXIF data."""

_EXIF_MARKER, _SCAN_MARKER, _FILL_BYTES = 0xFFE1, 0xFFDA, 0xFFFF
_PADDING = b"\0" * 16
_COLOUR_TYPE_OFFSET = 25


@tf.function(input_signature=[tf.TensorSpec([], tf.string)], autograph=False)
def exif_orientation(encoded: tf.Tensor) -> tf.Tensor:
    """Return the EXIF orientation of an encoded image, 1 to 8; 1 (upright) without valid tags.

    Args:
        encoded: a scalar string tensor: JPEG, PNG or WebP.
    """
    raw = tf.io.decode_raw(tf.strings.join([encoded, _PADDING]), tf.uint8)
    tiff = tf.case(
        [
            (raw[0] == 0xFF, lambda: _find_jpeg_exif(raw)),
            (raw[0] == ord("R"), lambda: _find_webp_exif(raw)),
        ],
        default=lambda: _find_png_exif(raw),
    )
    little = _starts_with(raw, tiff, b"II*\0")
    directory = tiff + _read_integer(raw, tiff + 4, 4, little)
    count = _read_integer(raw, directory, 2, little)
    # Each entry of a directory has 12 bytes: tag, type, count and value.
    rows = tf.clip_by_value((_count_bytes(raw) - directory - 2) // 12, 0, count)
    entries = tf.reshape(raw[directory + 2 :][: 12 * rows], [-1, 12])
    tags, values = combine_bytes(entries[:, :2], little), combine_bytes(entries[:, 8:10], little)
    found = tf.boolean_mask(values, tags == ORIENTATION_TAG)
    orientation = tf.concat([found, [1]], 0)[0]
    valid = (little | _starts_with(raw, tiff, b"MM\0*")) & (orientation >= 1) & (orientation <= 8)
    return tf.where(valid, orientation, np.int64(1))


@tf.function(input_signature=[tf.TensorSpec([], tf.string)], autograph=False)
def has_transparency(encoded: tf.Tensor) -> tf.Tensor:
    """Return whether a PNG has an alpha channel or transparent colours."""
    raw = tf.io.decode_raw(tf.strings.join([encoded, _PADDING]), tf.uint8)
    at = _find_png_chunk(raw, b"tRNS", b"IDAT")
    has_alpha = _read_integer(raw, tf.constant(_COLOUR_TYPE_OFFSET, tf.int64), 1) >= 4
    return has_alpha | _starts_with(raw, at + 4, b"tRNS")


def transpose_upright(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Rotate and flip an image `(H, W, C)` according to its EXIF orientation."""
    upright = tf.transpose(image, tf.where(orientation >= 5, [1, 0, 2], [0, 1, 2]))
    rows = tf.reduce_any(orientation == [3, 4, 7, 8])
    columns = tf.reduce_any(orientation == [2, 3, 6, 7])
    upright = tf.reverse(upright, tf.boolean_mask([0, 1], [rows, columns]))
    return tf.ensure_shape(upright, [None, None, image.shape[-1]])


def _find_jpeg_exif(raw: tf.Tensor) -> tf.Tensor:
    """Return the offset of the EXIF data of a JPEG, or the end of the file."""

    def is_exif(at: tf.Tensor) -> tf.Tensor:
        return (_read_integer(raw, at, 2) == _EXIF_MARKER) & _starts_with(raw, at + 4, b"Exif\0\0")

    def is_match(at: tf.Tensor) -> tf.Tensor:
        return (_read_integer(raw, at, 2) == _SCAN_MARKER) | is_exif(at)

    def find_next(at: tf.Tensor) -> tf.Tensor:
        fill = _read_integer(raw, at, 2) == _FILL_BYTES
        return at + tf.where(fill, np.int64(1), 2 + _read_integer(raw, at + 2, 2))

    at = _find_segment(raw, 2, is_match, find_next)
    return tf.where(is_exif(at), at + 10, _count_bytes(raw))


def _find_png_exif(raw: tf.Tensor) -> tf.Tensor:
    """Return the offset of the EXIF data of a PNG, or the end of the file."""
    return _find_png_chunk(raw, b"eXIf") + 8


def _find_png_chunk(raw: tf.Tensor, *kinds: bytes) -> tf.Tensor:
    """Return the offset of the first chunk of one of these kinds, or the end of the file."""

    def is_match(at: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any([_starts_with(raw, at + 4, kind) for kind in kinds])

    def find_next(at: tf.Tensor) -> tf.Tensor:
        return at + 12 + _read_integer(raw, at, 4)  # length, kind, data and checksum

    return _find_segment(raw, 8, is_match, find_next)


def _find_webp_exif(raw: tf.Tensor) -> tf.Tensor:
    """Return the offset of the EXIF data of a WebP, or the end of the file."""

    def find_next(at: tf.Tensor) -> tf.Tensor:
        size = _read_integer(raw, at + 4, 4, little=True)
        return at + 8 + size + size % 2  # chunks are padded to even sizes

    at = 8 + _find_segment(raw, 12, lambda at: _starts_with(raw, at, b"EXIF"), find_next)
    return at + tf.where(_starts_with(raw, at, b"Exif\0\0"), np.int64(6), np.int64(0))


Step = Callable[[tf.Tensor], tf.Tensor]


def _find_segment(raw: tf.Tensor, start: int, is_match: Step, find_next: Step) -> tf.Tensor:
    """Return the offset of the first segment for which `is_match`, or the end of the file."""
    (at,) = tf.while_loop(
        lambda at: (at < _count_bytes(raw)) & ~is_match(at),
        lambda at: (find_next(at),),
        (tf.constant(start, tf.int64),),
        maximum_iterations=MAX_SEGMENTS,
    )
    return tf.minimum(at, _count_bytes(raw))


def _count_bytes(raw: tf.Tensor) -> tf.Tensor:
    """Return the number of bytes without padding."""
    return tf.size(raw, tf.int64) - len(_PADDING)


def _starts_with(raw: tf.Tensor, at: tf.Tensor, text: bytes) -> tf.Tensor:
    """Return whether the bytes at an offset are `text`."""
    return _read_integer(raw, at, len(text)) == int.from_bytes(text)


def _read_integer(
    raw: tf.Tensor, at: tf.Tensor, size: int, little: tf.Tensor | bool = False
) -> tf.Tensor:
    """Return the unsigned integer of `size` bytes at an offset; past the end, bytes are 0."""
    at = tf.minimum(at, _count_bytes(raw))
    return combine_bytes(tf.ensure_shape(raw[at : at + size], [size]), little)


def combine_bytes(numbers: tf.Tensor, little: tf.Tensor | bool = False) -> tf.Tensor:
    """Return the unsigned integers of the bytes in the last axis, by default big-endian."""
    numbers = tf.cast(numbers, tf.int64)
    numbers = tf.where(little, numbers[..., ::-1], numbers)
    powers = 256 ** np.arange(numbers.shape[-1], dtype="int64")[::-1]
    return tf.reduce_sum(numbers * powers, -1)
