"""Limits of the values of a request: generated tokens and pixels."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from PIL.Image import Image
from PIL.JpegImagePlugin import JpegImageFile
from PIL.WebPImagePlugin import WebPImageFile

from attention_zoo.serving.rest import IMAGE, PredictRequest

MAX_LENGTH = "max_length"

_HEADERS: dict[bytes, Callable[[io.BytesIO], Image]] = {
    b"\xff\xd8\xff": JpegImageFile,
    b"RIFF": WebPImageFile,
}
"""Reader of the header of each format by the first bytes of a file."""

_JPEG_SIZES = re.compile(rb"(?s)\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]...(..)(..)")
"""Height and width in JPEG files whose metadata Pillow rejects, but TensorFlow ignores."""


def check_limits(request: PredictRequest, max_length: int, max_image_pixels: int) -> None:
    """Raise ValueError if a request would generate too many tokens or decode too many pixels.

    The number of pixels is that of the header of each image. An image without a header of a known
    format is left to the model, which returns an error for its row.

    Args:
        request: the request.
        max_length: maximum of the option `max_length`.
        max_image_pixels: maximum number of pixels of all images.
    """
    length = request.options.get(MAX_LENGTH)
    if length is not None and length > max_length:
        raise ValueError(f"inputs.{MAX_LENGTH} must be at most {max_length}, got {length}")
    num_pixels = 0
    for row in request.rows:
        if IMAGE in row and row[IMAGE].dtype.kind == "O":
            num_pixels += sum(_count_pixels(encoded) for encoded in row[IMAGE].flat)
    if num_pixels > max_image_pixels:
        raise ValueError(
            f"the images of a request must have at most {max_image_pixels:,} pixels together, got"
            f" {num_pixels:,}; send fewer or smaller images"
        )


def _count_pixels(encoded: bytes) -> int:
    """Return the number of pixels in the header of an image, 0 for an unknown format."""
    if encoded.startswith(b"\x89PNG"):  # the header is always the first chunk
        return _multiply(encoded[16:20], encoded[20:24])
    for start, read_header in _HEADERS.items():
        if encoded.startswith(start):
            try:
                with read_header(io.BytesIO(encoded)) as image:
                    return image.width * image.height
            except Exception:  # Pillow raises many types for damaged files
                return max((_multiply(*size) for size in _JPEG_SIZES.findall(encoded)), default=0)
    return 0


def _multiply(height: bytes, width: bytes) -> int:
    return int.from_bytes(height, "big") * int.from_bytes(width, "big")
