"""Limits of the values of a request: generated tokens and pixels."""

from __future__ import annotations

import io
from collections.abc import Callable

from PIL.Image import Image
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from attention_zoo.serving.rest import IMAGE, PredictRequest

MAX_LENGTH = "max_length"

_HEADERS: dict[bytes, Callable[[io.BytesIO], Image]] = {
    b"\xff\xd8\xff": JpegImageFile,
    b"\x89PNG": PngImageFile,
    b"RIFF": WebPImageFile,
}
"""Reader of the header of each format by the first bytes of a file."""


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
        if IMAGE in row:
            num_pixels += sum(_count_pixels(encoded) for encoded in row[IMAGE].flat)
    if num_pixels > max_image_pixels:
        raise ValueError(
            f"the images of a request must have at most {max_image_pixels:,} pixels together, got"
            f" {num_pixels:,}"
        )


def _count_pixels(encoded: bytes) -> int:
    """Return the number of pixels in the header of an image, 0 for an unknown format."""
    for start, read_header in _HEADERS.items():
        if encoded.startswith(start):
            try:
                with read_header(io.BytesIO(encoded)) as image:
                    return image.width * image.height
            except Exception:  # Pillow raises many types for damaged files
                return 0
    return 0
