"""Images from files, bytes and arrays, with the same pixels as in an exported graph.

TensorFlow decodes, converts and resizes images, here as in a graph. Pillow parses the header,
before anything is decoded, and rotates images that have an EXIF orientation.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.images.formats import JPEG, PNG, SCAN, WEBP

Image = NDArray[np.uint8]
Size = int | tuple[int, int]
"""The side of a square, or (height, width)."""

MAX_PIXELS = 1 << 26
"""Maximum number of pixels of an image, as in 8192 x 8192. It is checked before decoding."""

MAX_BYTES = 1 << 28
"""Maximum size of an encoded image in bytes."""

MAX_SCANS = 100
"""Maximum number of scans of a JPEG. Each scan may process all pixels; photos have about ten."""

_FORMATS = {b"GIF8": "GIF", b"BM": "BMP", b"II*\0": "TIFF", b"MM\0*": "TIFF"}


def read_image(source: Any, size: Size | None = None, where: str | None = None) -> Image:
    """Read an image as `(H, W, 3)`, uint8, RGB.

    Grayscale, palette, CMYK and 16-bit images are converted, and transparent ones are composited
    over white. Images are rotated and flipped according to their EXIF orientation.

    Files and bytes are JPEG, PNG or WebP, decoded by TensorFlow, and resized by
    `tf.image.resize(..., method="bilinear", antialias=True)`, rounded, without keeping the aspect
    ratio. `graph_image` does the same in a graph. PNG has checksums, which detect all damage. JPEG
    and WebP have none, so a wrong byte can go undetected.

    Args:
        source: a path, an encoded image, a Pillow image, or an array `(H, W, 3)`, `(H, W, 4)` (with
            alpha), `(H, W, 1)` or `(H, W)`, uint8.
        size: size to resize to: the side of a square or (height, width). By default, the image is
            not resized.
        where: name of the image in error messages; default: its path, or "the image".

    Raises:
        ValueError: a missing file; a file of more than `MAX_BYTES`; another format; damaged or
            truncated data; more than `MAX_PIXELS` or `MAX_SCANS`; an animation; an orientation that
            is only in XMP or a PNG text chunk; an array of another dtype or shape; a size below 1
            or of more than `MAX_PIXELS`. The message names the image.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.data import read_image
        >>> read_image(np.full((3, 5), 7, np.uint8), size=(2, 4)).shape
        (2, 4, 3)
    """
    from PIL.Image import Image as PillowImage

    where = where or (str(source) if isinstance(source, str | Path) else "the image")
    if isinstance(source, PillowImage):
        source = _convert_pillow_image(where, source)
    if isinstance(source, np.ndarray):
        image = check_array(where, source)
        return resize_image(image if image.shape[-1] == 3 else np.repeat(image, 3, -1), size)
    encoded: object = source
    if isinstance(source, str | Path):
        encoded = read_bytes(source, where)
    if not isinstance(encoded, bytes):
        kind = type(encoded).__name__
        raise ValueError(
            f"{where}: expected a path, encoded bytes, a Pillow image or an array, got {kind}"
        )
    header = _check_header(where, encoded)
    image = _decode_eagerly(where, encoded)
    return resize_image(_rotate_upright(where, image, header, encoded), size)


def graph_image(encoded: Any, size: Size | None = None) -> Any:
    """Decode an image in a `tf.function` as `read_image` does: `(H, W, 3)`, uint8.

    Pixels are identical for all images that `read_image` accepts. Other formats, animated WebP
    images and more than `MAX_PIXELS` or `MAX_SCANS` raise `tf.errors.InvalidArgumentError`. The
    graph cannot detect other properties: an animated PNG gives its default image, and an
    orientation that is only in XMP or a PNG text chunk is ignored.

    Args:
        encoded: a scalar string tensor: JPEG, PNG or WebP.
        size: see `read_image`.
    """
    import tensorflow as tf

    from attention_zoo.data.images.graph_decoding import convert_to_rgb, decode, find_decoder
    from attention_zoo.data.images.graph_headers import assert_valid_header

    sides = parse_size(size)
    with tf.control_dependencies([assert_valid_header(encoded, MAX_PIXELS, MAX_SCANS)]):
        encoded = tf.identity(encoded)
    return convert_to_rgb(decode(encoded, find_decoder(encoded), MAX_PIXELS), encoded, sides)


def resize_image(image: Image, size: Size | None) -> Image:
    """Return an image `(H, W, C)` resized to `size`, or unchanged if `size` is None.

    Raises ValueError for an invalid size.
    """
    sides = parse_size(size)
    if sides is None or image.shape[:2] == sides:
        return image
    import tensorflow as tf

    from attention_zoo.data.images.graph_decoding import resize

    with tf.device("CPU"):
        small: Image = resize(tf.constant(image), sides).numpy()
    return small


def get_decoder_versions() -> list[str]:
    """Return the versions of the libraries that the pixels of `read_image` depend on."""
    import PIL
    import tensorflow as tf

    return [tf.__version__, PIL.__version__]


def resize_images(images: Any, size: int) -> Any:
    """Return images `(N, H, W, C)` resized to squares of side `size`."""
    if images.shape[1:3] == (size, size):
        return images
    small = [resize_image(image, size) for image in images]
    return np.stack(small) if small else np.empty((0, size, size, images.shape[-1]), np.uint8)


def check_stack(where: str, images: Any, channels: Sequence[int]) -> None:
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
    """Return the array as `(H, W, 1)` or `(H, W, 3)`; raise ValueError if it is not an image.

    Pixels with alpha are composited over white.
    """
    if array.dtype != np.uint8:
        raise ValueError(f"{where}: the array must be uint8, from 0 to 255, got {array.dtype}")
    shaped = array[..., None] if array.ndim == 2 else array
    if shaped.ndim != 3 or shaped.shape[-1] not in (1, 3, 4):
        raise ValueError(f"{where}: the array must be (height, width, 3), got shape {array.shape}")
    _check_sides(where, *shaped.shape[:2])
    if shaped.shape[-1] < 4:
        return shaped
    from attention_zoo.data.images.graph_decoding import composite_over_white

    composite: Image = composite_over_white(shaped.astype(np.int32)).astype(np.uint8)
    return composite


def read_bytes(path: str | Path, where: str | None = None, count: int | None = None) -> bytes:
    """Return the bytes of a file, or its first `count` bytes.

    Raises ValueError if it is missing or if all bytes exceed `MAX_BYTES`.
    """
    where = where or str(path)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size if count is None else count  # 0 for a pipe
            encoded = b"" if size > MAX_BYTES else file.read(count or MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{where}: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{where}: the path contains a null character; remove it") from None
    check_bytes(where, max(size, len(encoded)))
    return encoded


def check_bytes(where: str, count: int) -> None:
    """Raise ValueError if `count` exceeds `MAX_BYTES`."""
    if count > MAX_BYTES:
        raise ValueError(f"{where}: more than {MAX_BYTES} bytes; make the image smaller")


def _check_header(where: str, encoded: bytes) -> Any:
    """Return the header.

    Raises ValueError if TensorFlow cannot decode the image correctly, or it is too large.
    """
    if not encoded.startswith((JPEG, PNG)) and not _is_webp(encoded):
        raise ValueError(f"{where}: {_describe_format(encoded)}; give a JPEG, PNG or WebP image")
    header = _parse_header(where, encoded)
    _check_sides(where, header.height, header.width)
    if encoded.startswith(JPEG) and encoded.count(SCAN) > MAX_SCANS:
        raise ValueError(f"{where}: has more than {MAX_SCANS} scans; save it as a baseline JPEG")
    if getattr(header, "is_animated", False):
        raise ValueError(f"{where}: is animated; save a single frame")
    return header


def _is_webp(encoded: bytes) -> bool:
    return encoded.startswith(WEBP) and encoded[8:12] == b"WEBP"


def _describe_format(encoded: bytes) -> str:
    """Describe bytes of another format, for an error message."""
    if not encoded:
        return "is empty"
    known = [name for signature, name in _FORMATS.items() if encoded.startswith(signature)]
    return f"is {known[0]}" if known else "is not in a known image format"


def _parse_header(where: str, encoded: bytes) -> Any:
    """Return the header that Pillow parses.

    Pillow's class of the format is used directly, because `Image.open` warns about large images.
    """
    from PIL import JpegImagePlugin, PngImagePlugin, WebPImagePlugin

    readers: dict[str, Any] = {
        "PNG": PngImagePlugin.PngImageFile,
        "JPEG": JpegImagePlugin.JpegImageFile,
        "WebP": WebPImagePlugin.WebPImageFile,
    }
    try:
        return readers[_name_format(encoded)](io.BytesIO(encoded))
    except Exception:  # Pillow raises many classes
        raise _make_damage_error(where, encoded) from None


def _name_format(encoded: bytes) -> str:
    return "PNG" if encoded.startswith(PNG) else "WebP" if _is_webp(encoded) else "JPEG"


def _make_damage_error(where: str, encoded: bytes) -> ValueError:
    kind = _name_format(encoded)
    return ValueError(f"{where}: the {kind} data is damaged or truncated; download it again")


def _check_sides(where: str, height: int, width: int) -> None:
    sides = f"{where}: {height} x {width}"
    if not height * width:
        raise ValueError(f"{sides}, an image without pixels; give a non-empty one")
    if height * width > MAX_PIXELS:
        raise ValueError(f"{sides}, more than {MAX_PIXELS} pixels; make it smaller")


def _rotate_upright(where: str, image: Image, header: Any, encoded: bytes) -> Image:
    """Return the image rotated and flipped according to its EXIF orientation."""
    import tensorflow as tf
    from PIL import Image as pillow
    from PIL import ImageOps

    from attention_zoo.data.images.graph_orientation import ORIENTATION_TAG, exif_orientation

    has_tags = any(name in encoded for name in (b"Exif", b"eXIf", b"EXIF"))
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

    from attention_zoo.data.images.graph_decoding import decode, find_decoder, remove_transparency

    content = tf.constant(encoded)
    try:
        with tf.device("CPU"):
            pixels = decode(content, find_decoder(content), MAX_PIXELS)
            image: Image = remove_transparency(pixels).numpy()
    except tf.errors.InvalidArgumentError:
        raise _make_damage_error(where, encoded) from None
    return image


def _convert_pillow_image(where: str, image: Any) -> Image:
    """Return the upright pixels of a Pillow image, `(H, W, 3)` or `(H, W, 4)`."""
    from PIL import ImageOps

    _check_sides(where, image.height, image.width)
    try:
        upright = ImageOps.exif_transpose(image)
        if upright.mode.startswith("I"):  # Pillow would clip 16 bits to 8
            grey = np.asarray(upright).astype(np.int64)
            if upright.mode != "I" or grey.max() > 255:  # "I" may hold 8 bits, too
                grey >>= 8
            return grey.clip(0, 255).astype(np.uint8)[..., None]
        has_alpha = upright.mode in ("LA", "La", "PA", "RGBA", "RGBa")
        mode = "RGBA" if has_alpha or "transparency" in upright.info else "RGB"
        return np.asarray(upright.convert(mode))
    except Exception as error:  # Pillow raises many classes
        raise ValueError(f"{where}: Pillow cannot convert the image: {error}") from None


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
