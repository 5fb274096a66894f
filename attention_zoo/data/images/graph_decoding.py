"""Decoding of images in TensorFlow ops: choice of the decoder, decoding, and conversion to RGB."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attention_zoo.data.images.formats import PNG, WEBP
from attention_zoo.data.images.graph_headers import assert_jpeg_size
from attention_zoo.data.images.graph_orientation import (
    exif_orientation,
    has_transparency,
    transpose_upright,
)


def find_decoder(encoded: tf.Tensor) -> tf.Tensor:
    """Return the index of the decoder of an image with a valid header, for `decode`."""
    first = tf.strings.substr(encoded, 0, 1)
    is_png, is_webp = first == PNG[:1], first == WEBP[:1]
    return tf.case(
        [
            (is_png, lambda: 1 + tf.cast(has_transparency(encoded), tf.int32)),
            (is_webp, lambda: tf.constant(3)),
        ],
        default=lambda: tf.constant(0),
    )


def decode(encoded: tf.Tensor, decoder: tf.Tensor, max_pixels: int) -> tf.Tensor:
    """Return the pixels of an image `(H, W, 3)`, or `(H, W, 4)` with alpha, uint8.

    Keep this graph small: TensorFlow optimizes it in every call of an export
    (`export.graph_images`).

    Args:
        encoded: a scalar string tensor.
        decoder: its index, from `find_decoder`.
        max_pixels: maximum number of pixels of a JPEG. `has_valid_header` checks PNG and WebP.
    """

    def decode_jpeg() -> tf.Tensor:
        with tf.control_dependencies([assert_jpeg_size(encoded, max_pixels)]):
            return tf.io.decode_jpeg(encoded, channels=3)

    # With 4 channels, TensorFlow gives opaque pixels of few bits a wrong alpha.
    decoders = [
        decode_jpeg,
        lambda: tf.io.decode_png(encoded, channels=3),
        lambda: tf.io.decode_png(encoded, channels=4),
        lambda: tf.io.decode_webp(encoded)[0],
    ]
    return tf.switch_case(decoder, decoders)


def convert_to_rgb(
    pixels: tf.Tensor, encoded: tf.Tensor, sides: tuple[int, int] | None
) -> tf.Tensor:
    """Return the image `(H, W, 3)`: composited over white, upright and resized. Never raises.

    Args:
        pixels: from `decode`.
        encoded: the encoded image.
        sides: height and width; None: not resized.
    """
    image = transpose_upright(remove_transparency(pixels), exif_orientation(encoded))
    return image if sides is None else resize(image, sides)


def remove_transparency(pixels: tf.Tensor) -> tf.Tensor:
    """Composite pixels `(H, W, 4)` with alpha over white; others are not changed."""
    opaque = tf.cond(
        tf.shape(pixels)[-1] == 4,
        lambda: tf.cast(composite_over_white(tf.cast(pixels, tf.int32)), tf.uint8),
        lambda: pixels,
    )
    return tf.ensure_shape(opaque, [None, None, 3])


def composite_over_white(pixels: Any) -> Any:
    """Composite pixels `(H, W, 4)` with alpha over white; return integers `(H, W, 3)`."""
    colours, alpha = pixels[..., :3], pixels[..., 3:]
    return (colours * alpha + 255 * (255 - alpha) + 127) // 255


def resize(image: tf.Tensor, sides: tuple[int, int]) -> tf.Tensor:
    """Return an image resized to (height, width), uint8."""
    image = tf.image.resize(image, sides, method="bilinear", antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(image), 0.0, 255.0), tf.uint8)
