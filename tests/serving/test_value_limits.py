"""Limits of generated tokens and of pixels, by the headers of images."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attention_zoo.serving.rest import PredictRequest
from attention_zoo.serving.value_limits import check_limits


def encode(format: str, width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, format)
    return file.getvalue()


def make_png_header(width: int, height: int) -> bytes:
    """Return a PNG file of 60 bytes that declares a size."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + bytes(4)


def check(images: list[bytes], limit: int = 1000, **options: Any) -> None:
    rows = [{"image": np.array(image, object)} for image in images]
    check_limits(PredictRequest("serving_default", rows, options, True), 64, limit)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_pixels_of_all_images_count(format: str) -> None:
    image = encode(format, 20, 25)
    check([image, image])
    with pytest.raises(ValueError, match="must have at most 1,000 pixels together, got 1,500"):
        check([image, image, image])


def test_the_header_suffices() -> None:
    with pytest.raises(ValueError, match="at most 16,777,216 pixels together, got 10,000,000,000"):
        check([make_png_header(100_000, 100_000)], 1 << 24)


def test_damaged_metadata_do_not_hide_the_size() -> None:
    """Pillow rejects these files, but TensorFlow decodes them."""
    png, jpeg = encode("PNG", 100, 90), encode("JPEG", 100, 90)
    text = b"zTXt" + b"a\0\0" + zlib.compress(bytes(2 << 20))
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    short_segment = b"\xff\xe0\x00\x06JFIF"
    for image in (png[:33] + chunk + png[33:], jpeg[:2] + short_segment + jpeg[2:]):
        with pytest.raises(ValueError, match="got 9,000"):
            check([image])


@pytest.mark.parametrize(
    "content", [b"", b"text", b"\x89PNG", b"RIFF", b"\xff\xd8\xff", encode("PNG", 99, 99)[:20]]
)
def test_other_files_are_left_to_the_model(content: bytes) -> None:
    check([content])


def test_arrays_of_numbers_are_no_files() -> None:
    rows = [{"image": np.zeros([28, 28], "float32")}]
    check_limits(PredictRequest("serving_default", rows, {}, True), 64, 10)


def test_generated_tokens_are_limited() -> None:
    check([], max_length=64)
    with pytest.raises(ValueError, match=r"inputs\.max_length must be at most 64, got 65"):
        check([], max_length=65)


def test_columns_of_images_count() -> None:
    images = np.array([encode("PNG", 20, 30)] * 2, object)
    request = PredictRequest("serving_default", [{"image": images}], {}, False, True)
    with pytest.raises(ValueError, match="got 1,200"):
        check_limits(request, 64, 1000)
