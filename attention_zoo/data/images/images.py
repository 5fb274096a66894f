"""Images from files, bytes and arrays, with the same pixels as in an exported graph.

TensorFlow decodes and resizes images, here as in a graph. Pillow parses the header, before anything
is decoded, and rotates images that have an EXIF orientation.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Size = int | tuple[int, int]
"""The side of a square, or (height, width)."""

MAX_PIXELS = 1 << 26
"""Maximum number of pixels of an image, as in 8192 x 8192. It is checked before decoding."""

MAX_BYTES = 1 << 28
"""Maximum size of an encoded image in bytes."""

MAX_SCANS = 100
"""Maximum number of scans of a JPEG. Each scan may process all pixels; photos have about ten."""

_JPEG, _PNG = SIGNATURES = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
_SCAN = b"\xff\xda"
_FORMATS = {b"GIF8": "GIF", b"BM": "BMP", b"RIFF": "WebP", b"II*\0": "TIFF", b"MM\0*": "TIFF"}
_MODES = {"CMYK": "CMYK colours", "LA": "an alpha channel", "RGBA": "an alpha channel"}
_DEPTH_AT = 24


def read_image(
    source: str | Path | bytes | Image, size: Size | None = None, where: str | None = None
) -> Image:
    """Read an image as `(H, W, 3)`, uint8, RGB. Grayscale and palette images are converted.

    Files and bytes are JPEG or PNG, decoded by TensorFlow, and resized by
    `tf.image.resize(..., method="bilinear", antialias=True)`, rounded, without keeping the aspect
    ratio. `graph_image` does the same in a graph. Images are rotated and flipped as their EXIF
    orientation says. PNG has checksums, which detect all damage. JPEG has none, so a wrong byte can
    go undetected.

    Args:
        source: a path, an encoded image, or an array `(H, W, 3)`, `(H, W, 1)` or `(H, W)`, uint8.
        size: size to resize to: the side of a square or (height, width). By default, the image is
            not resized.
        where: name of the image in error messages; default: its path, or "the image".

    Raises:
        ValueError: a missing file; a file of more than `MAX_BYTES`; neither JPEG nor PNG; damaged
            or truncated data; more than `MAX_PIXELS` or `MAX_SCANS`; CMYK, alpha, transparency,
            16 bits; an animation; an orientation that is only in XMP or a text; an array of another
            dtype or shape; a size below 1 or of more than `MAX_PIXELS`. The message names the
            image.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.data import read_image
        >>> read_image(np.full((3, 5), 7, np.uint8), size=(2, 4)).shape
        (2, 4, 3)
    """
    where = where or (str(source) if isinstance(source, str | Path) else "the image")
    if isinstance(source, np.ndarray):
        image = check_array(where, source)
        return resize_image(np.repeat(image, 3, -1) if image.shape[-1] == 1 else image, size)
    encoded: object = source
    if isinstance(source, str | Path):
        encoded = read_bytes(source, where)
    if not isinstance(encoded, bytes):
        kind = type(encoded).__name__
        raise ValueError(f"{where}: expected a path, encoded bytes or an array, got {kind}")
    header = _check_header(where, encoded)
    image = _decode_eagerly(where, encoded)
    return resize_image(_rotate_upright(where, image, header, encoded), size)


def graph_image(encoded: Any, size: Size | None = None) -> Any:
    """Decode an image in a `tf.function` as `read_image` does: `(H, W, 3)`, uint8.

    Pixels are identical for all images that `read_image` accepts. CMYK, alpha, 16 bits and more
    than `MAX_PIXELS` or `MAX_SCANS` raise `tf.errors.InvalidArgumentError`. The graph cannot
    detect other properties: transparent colours of a PNG or its palette become opaque, an animated
    PNG gives its default image, and an orientation that is only in XMP or a text is ignored.

    Args:
        encoded: a scalar string tensor: JPEG or PNG.
        size: see `read_image`.
    """
    import tensorflow as tf

    from attention_zoo.data.images.graph_orientation import exif_orientation, transpose_upright

    sides = parse_size(size)
    with tf.control_dependencies([_make_assertion(encoded)]):
        encoded = tf.identity(encoded)
    image = transpose_upright(_decode(encoded), exif_orientation(encoded))
    return image if sides is None else _resize(image, sides)


def resize_image(image: Image, size: Size | None) -> Image:
    """Return an image `(H, W, C)` resized to `size`, or unchanged if `size` is None.

    Raises ValueError for an invalid size.
    """
    sides = parse_size(size)
    if sides is None or image.shape[:2] == sides:
        return image
    import tensorflow as tf

    with tf.device("CPU"):
        small: Image = _resize(tf.constant(image), sides).numpy()
    return small


def resize_images(images: Image, size: int) -> Image:
    """Return images `(N, H, W, C)` resized to squares of side `size`."""
    if images.shape[1:3] == (size, size):
        return images
    small = [resize_image(image, size) for image in images]
    return np.stack(small) if small else np.empty((0, size, size, images.shape[-1]), np.uint8)


def check_stack(where: str, images: NDArray[Any], channels: Sequence[int]) -> None:
    """Raise ValueError unless these are uint8 images `(N, H, W, C)` with C in `channels`."""
    if images.dtype != np.uint8:
        raise ValueError(f"{where}: images must be uint8, from 0 to 255, got {images.dtype}")
    if images.ndim != 4 or images.shape[-1] not in channels or not all(images.shape[1:]):
        shapes = " or ".join(f"(N, H, W, {count})" for count in channels)
        raise ValueError(f"{where}: images must be {shapes}, got shape {images.shape}")


def compute_digest(image: Image) -> str:
    """Return a hash of the pixels, 32 hexadecimal digits, to identify an image."""
    return hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=16).hexdigest()


def check_array(where: str, array: NDArray[Any]) -> Image:
    """Return the array as `(H, W, 1)` or `(H, W, 3)`; raise ValueError if it is not an image."""
    if array.dtype != np.uint8:
        raise ValueError(f"{where}: the array must be uint8, from 0 to 255, got {array.dtype}")
    shaped = array[..., None] if array.ndim == 2 else array
    if shaped.ndim != 3 or shaped.shape[-1] not in (1, 3):
        raise ValueError(f"{where}: the array must be (height, width, 3), got shape {array.shape}")
    _check_sides(where, *shaped.shape[:2])
    return shaped


def read_bytes(path: str | Path, where: str | None = None) -> bytes:
    """Return the bytes of a file; raise ValueError if it is missing or exceeds `MAX_BYTES`."""
    where = where or str(path)
    try:
        with open(path, "rb") as file:
            encoded = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{where}: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{where}: not a valid path, contains a null character") from None
    check_bytes(where, len(encoded))
    return encoded


def check_bytes(where: str, count: int) -> None:
    """Raise ValueError if `count` exceeds `MAX_BYTES`."""
    if count > MAX_BYTES:
        raise ValueError(f"{where}: more than {MAX_BYTES} bytes; make the image smaller")


def _check_header(where: str, encoded: bytes) -> Any:
    """Return the header.

    Raises ValueError if TensorFlow cannot decode the image correctly, or it is too large.
    """
    if not encoded.startswith((_JPEG, _PNG)):
        raise ValueError(f"{where}: {_describe_format(encoded)}; give a JPEG or PNG image")
    header = _parse_header(where, encoded)
    _check_sides(where, header.height, header.width)
    if encoded.startswith(_JPEG) and encoded.count(_SCAN) > MAX_SCANS:
        raise ValueError(f"{where}: has more than {MAX_SCANS} scans; save it as a baseline JPEG")
    deep = encoded.startswith(_PNG) and encoded[_DEPTH_AT] > 8
    problem = _MODES.get(header.mode) or ("16 bits per channel" if deep else None)
    if "transparency" in header.info:
        problem = "transparent colours"
    if problem is not None:
        raise ValueError(f"{where}: has {problem}; save it as RGB with 8 bits per channel")
    if getattr(header, "is_animated", False):
        raise ValueError(f"{where}: is animated; save a single frame")
    return header


def _describe_format(encoded: bytes) -> str:
    """Describe bytes that are neither JPEG nor PNG, for an error message."""
    if not encoded:
        return "is empty"
    known = [name for signature, name in _FORMATS.items() if encoded.startswith(signature)]
    return f"is {known[0]}" if known else "is not in a known image format"


def _parse_header(where: str, encoded: bytes) -> Any:
    """Return the header that Pillow parses.

    Pillow's class of the format is used directly, because `Image.open` warns about large images.
    """
    from PIL import JpegImagePlugin, PngImagePlugin

    png = encoded.startswith(_PNG)
    try:
        read: Any = PngImagePlugin.PngImageFile if png else JpegImagePlugin.JpegImageFile
        return read(io.BytesIO(encoded))
    except Exception:  # Pillow raises many classes
        raise _make_damage_error(where, encoded) from None


def _make_damage_error(where: str, encoded: bytes) -> ValueError:
    kind = "PNG" if encoded.startswith(_PNG) else "JPEG"
    return ValueError(f"{where}: the {kind} data is damaged or truncated; download it again")


def _check_sides(where: str, height: int, width: int) -> None:
    sides = f"{where}: {height} x {width}"
    if not height * width:
        raise ValueError(f"{sides}, an image without pixels; give a non-empty one")
    if height * width > MAX_PIXELS:
        raise ValueError(f"{sides}, more than {MAX_PIXELS} pixels; make it smaller")


def _rotate_upright(where: str, image: Image, header: Any, encoded: bytes) -> Image:
    """Return the image rotated and flipped as its EXIF orientation says."""
    import tensorflow as tf
    from PIL import Image as pillow
    from PIL import ImageOps

    from attention_zoo.data.images.graph_orientation import ORIENTATION_TAG, exif_orientation

    has_tags = b"Exif" in encoded or b"eXIf" in encoded
    stored: Any = None
    try:
        if b"eXIf" in encoded:
            header.load()  # the tags of a PNG may follow its pixels
        stored = pillow.Image.getexif(header).get(ORIENTATION_TAG)
    except Exception:  # invalid tags count as none
        pass
    orientation = int(stored) if stored in range(2, 9) else 1
    with tf.device("CPU"):
        known = int(exif_orientation(encoded)) if has_tags else 1
    if known != orientation:
        raise ValueError(
            f"{where}: has orientation {max(known, orientation)} in XMP, a text or damaged EXIF"
            " data; rotate it with PIL.ImageOps.exif_transpose and save it again"
        )
    if orientation == 1:
        return image
    picture = pillow.fromarray(image)
    picture.getexif()[ORIENTATION_TAG] = orientation
    return np.array(ImageOps.exif_transpose(picture))


def _decode_eagerly(where: str, encoded: bytes) -> Image:
    import tensorflow as tf

    try:
        with tf.device("CPU"):
            image: Image = _decode(tf.constant(encoded)).numpy()
    except tf.errors.InvalidArgumentError:
        raise _make_damage_error(where, encoded) from None
    return image


def _decode(encoded: Any) -> Any:
    import tensorflow as tf

    image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
    return tf.ensure_shape(image, [None, None, 3])


def _resize(image: Any, sides: tuple[int, int]) -> Any:
    import tensorflow as tf

    image = tf.image.resize(image, sides, method="bilinear", antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(image), 0.0, 255.0), tf.uint8)


def parse_size(size: Size | None) -> tuple[int, int] | None:
    """Return (height, width), or None if `size` is None; raise ValueError for an invalid size."""
    if size is None:
        return None
    sides = (size, size) if isinstance(size, int) else size
    two = isinstance(sides, Sequence) and len(sides) == 2
    if not two or not all(type(side) is int and side >= 1 for side in sides):
        raise ValueError(f"size={size!r}: expected one side or (height, width), each at least 1")
    if sides[0] * sides[1] > MAX_PIXELS:
        raise ValueError(f"size={size!r}: more than {MAX_PIXELS} pixels; make it smaller")
    return sides[0], sides[1]


def _make_assertion(encoded: Any) -> Any:
    """Return a graph assertion of the checks in `_check_header` that need only a few bytes."""
    import tensorflow as tf

    from attention_zoo.data.images.graph_orientation import combine_bytes

    def read_jpeg() -> tuple[Any, Any]:
        shape = tf.cast(tf.image.extract_jpeg_shape(encoded), tf.int64)
        scans = tf.size(tf.strings.split(encoded[None], _SCAN).values) - 1
        return shape[:2], ((shape[2] == 1) | (shape[2] == 3)) & (scans <= MAX_SCANS)

    def read_png() -> tuple[Any, Any]:
        raw = tf.cast(tf.io.decode_raw(tf.strings.substr(encoded, 16, 10), tf.uint8), tf.int64)
        return combine_bytes(tf.reshape(raw[:8], [2, 4])), (raw[8] <= 8) & (raw[9] < 4)

    is_jpeg, is_png = (tf.strings.substr(encoded, 0, len(s)) == s for s in SIGNATURES)
    is_complete = tf.strings.length(encoded) >= _PNG_HEAD
    message = ["the image is neither JPEG nor PNG, or its header is truncated"]
    is_known = tf.debugging.Assert(is_jpeg | (is_png & is_complete), message)
    with tf.control_dependencies([is_known]):
        sides, plain = tf.cond(is_jpeg, read_jpeg, read_png)
    small = (tf.reduce_min(sides) > 0) & (tf.reduce_prod(sides) <= MAX_PIXELS)
    reason = (
        "the image is not 8-bit grayscale or RGB without alpha, or has too many pixels or scans"
    )
    return tf.debugging.Assert(plain & small, [reason])


_PNG_HEAD = 26
"""Number of bytes of a PNG file up to bit depth and colour type."""
