"""Images: decoding, errors by name, and equal pixels from the TensorFlow graph."""

from __future__ import annotations

import io
import re
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

from attention_zoo.data import graph_image, read_image
from attention_zoo.data.images import graph_orientation, images
from attention_zoo.data.images.graph_orientation import ORIENTATION_TAG, exif_orientation
from attention_zoo.data.images.images import MAX_PIXELS, MAX_SCANS, resize_image

RNG = np.random.default_rng(0)
SMOOTH = np.asarray(Image.fromarray(RNG.integers(0, 256, (4, 5, 3), np.uint8)).resize((31, 17)))
COLOURS = Image.fromarray(SMOOTH)


def encoded(image: Any, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png(width: int, height: int) -> bytes:
    """Return a PNG whose header has this size, almost without data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        code = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + code

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def jpeg(width: int, height: int) -> bytes:
    """Return a JPEG whose header has this size."""
    raw = bytearray(encoded(COLOURS, "JPEG"))
    at = raw.index(b"\xff\xc0") + 5
    raw[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(raw)


GOOD = {
    "JPEG": encoded(COLOURS, "JPEG"),
    "progressive JPEG": encoded(COLOURS, "JPEG", progressive=True, subsampling=0),
    "grey JPEG": encoded(COLOURS.convert("L"), "JPEG"),
    "PNG": encoded(COLOURS),
    "grey PNG": encoded(COLOURS.convert("L")),
    "black and white PNG": encoded(COLOURS.convert("1")),
    "palette PNG": encoded(COLOURS.convert("P")),
    "small palette PNG": encoded(COLOURS.quantize(4), bits=2),
}


@pytest.mark.parametrize("name", GOOD)
def test_formats_of_pillow_are_read(name: str) -> None:
    found, expected = (
        read_image(GOOD[name]),
        np.asarray(Image.open(io.BytesIO(GOOD[name])).convert("RGB")),
    )
    assert found.dtype == np.uint8
    assert found.shape == (17, 31, 3)
    near = 8 if "JPEG" in name else 0  # the decoders of JPEG have different cosines
    assert np.abs(found.astype(int) - expected).max() <= near


SIZES = [None, 8, (40, 9), (17, 31), 1]


@pytest.fixture(scope="module")
def graphs() -> dict[Any, Any]:
    signature = [tf.TensorSpec([], tf.string)]
    functions = {
        size: tf.function(
            lambda raw, size=size: graph_image(raw, size),
            input_signature=signature,
            autograph=False,
        )
        for size in SIZES
    }
    for function in functions.values():
        function(GOOD["PNG"])
    return functions


@pytest.mark.parametrize("name", GOOD)
def test_graph_returns_equal_pixels(graphs: dict[Any, Any], name: str) -> None:
    for size in SIZES:
        found = graphs[size](GOOD[name])
        expected = read_image(GOOD[name], size)
        np.testing.assert_array_equal(found.numpy(), expected)
        sides = {None: (17, 31), 8: (8, 8), 1: (1, 1)}.get(size, size)
        assert expected.shape == (*sides, 3)  # type: ignore[misc]
        assert expected.dtype == found.dtype == np.uint8


def test_graph_reads_a_batch() -> None:
    raw = tf.constant([GOOD["PNG"], GOOD["grey JPEG"]])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def batch(raw: Any) -> Any:
        return tf.map_fn(lambda one: graph_image(one, 6), raw, fn_output_signature=tf.uint8)

    expected = [read_image(GOOD[name], 6) for name in ("PNG", "grey JPEG")]
    np.testing.assert_array_equal(batch(raw).numpy(), expected)
    assert batch(raw[:0]).shape[0] == 0


def test_graph_image_works_eagerly() -> None:
    expected = read_image(GOOD["PNG"], 6)
    np.testing.assert_array_equal(graph_image(tf.constant(GOOD["PNG"]), 6).numpy(), expected)


def test_resizing_averages_and_rounds() -> None:
    board = np.kron([[0, 255], [255, 0]], np.ones((8, 8))).astype(np.uint8)
    assert (read_image(board, 1) == 128).all()
    fine = np.indices((32, 32)).sum(0) % 2 * np.uint8(255)  # without antialiasing 0 or 255
    assert np.abs(read_image(fine.astype(np.uint8), 4).astype(int) - 127).max() <= 2


def test_image_of_the_requested_size_is_unchanged() -> None:
    assert resize_image(SMOOTH, SMOOTH.shape[:2]) is SMOOTH


def test_arrays_are_not_decoded() -> None:
    np.testing.assert_array_equal(read_image(SMOOTH), SMOOTH)
    grey = SMOOTH[..., 0]
    for array in (grey, grey[..., None]):
        np.testing.assert_array_equal(read_image(array), np.stack([grey] * 3, -1))
    np.testing.assert_array_equal(read_image(SMOOTH, (9, 7)), read_image(GOOD["PNG"], (9, 7)))


def test_paths_are_read(tmp_path: Any) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(GOOD["JPEG"])
    for source in (path, str(path)):
        np.testing.assert_array_equal(read_image(source), read_image(GOOD["JPEG"]))


def tags(orientation: int, endian: str = "<") -> bytes:
    """Return EXIF data with a directory of several entries."""
    exif = Image.Exif()
    exif.endian = endian
    exif[0x010F] = "a maker"
    exif[ORIENTATION_TAG] = orientation
    exif[0x8769] = {0x9003: "2020:01:01 00:00:00"}
    return exif.tobytes()


def turned(orientation: int, kind: str, endian: str = "<") -> bytes:
    return encoded(COLOURS, kind, exif=tags(orientation, endian))


def late_tags(orientation: int) -> bytes:
    """Return a PNG whose tags follow its pixels."""
    data = tags(orientation).removeprefix(b"Exif\0\0")
    sums = struct.pack(">I", zlib.crc32(b"eXIf" + data))
    plain = encoded(COLOURS)
    return plain[:-12] + struct.pack(">I", len(data)) + b"eXIf" + data + sums + plain[-12:]


def raw_profile(orientation: int) -> bytes:
    """Return a PNG with tags as text, as older programs write them."""
    data = tags(orientation)
    info = PngInfo()
    info.add_text("Raw profile type exif", f"\nexif\n{len(data):8}\n{data.hex()}\n")
    return encoded(COLOURS, pnginfo=info)


def xmp(orientation: int) -> bytes:
    return encoded(COLOURS, "JPEG", xmp=f'<x tiff:Orientation="{orientation}"/>'.encode())


def damaged_tags(orientation: int) -> bytes:
    """Return a JPEG whose EXIF data begin with swapped bytes, which Pillow accepts."""
    data = tags(orientation, ">").replace(b"MM\0*", b"MM*\0")
    return encoded(COLOURS, "JPEG", exif=data)


def many_scans(count: int) -> bytes:
    """Return a progressive JPEG whose last scan is repeated `count` times."""
    raw = encoded(COLOURS, "JPEG", progressive=True)
    last = raw[raw.rindex(b"\xff\xda") : -2]
    return raw[:-2] + last * count + raw[-2:]


DEEP = np.full((4, 4), 40_000, np.uint16)
BOTH = [COLOURS, COLOURS.rotate(180)]
ANIMATED = encoded(COLOURS, "WEBP", save_all=True, append_images=BOTH)
BAD: dict[str, tuple[Any, str]] = {
    "nothing": (b"", "is empty; give a JPEG, PNG or WebP"),
    "text": (b"a dog runs", "is not in a known image format; give a JPEG, PNG or WebP"),
    "GIF": (encoded(COLOURS.convert("P"), "GIF"), "is GIF; give a JPEG, PNG or WebP"),
    "BMP": (encoded(COLOURS, "BMP"), "is BMP; give a JPEG, PNG or WebP"),
    "WebP's header": (b"RIFF\x20\0\0\0WEBPVP8 ", "the WebP data is damaged or truncated"),
    "RIFF": (b"RIFF\x20\0\0\0WAVEfmt ", "is not in a known image format; give a JPEG"),
    "animated WebP": (ANIMATED, "is animated; save a single frame"),
    "TIFF": (encoded(COLOURS, "TIFF"), "is TIFF; give a JPEG, PNG or WebP"),
    "cut PNG": (GOOD["PNG"][:-20], "the PNG data is damaged or truncated; download it again"),
    "cut JPEG": (GOOD["JPEG"][:-9], "the JPEG data is damaged or truncated; download it again"),
    "PNG's header": (GOOD["PNG"][:20], "the PNG data is damaged or truncated"),
    "JPEG's header": (GOOD["JPEG"][:40], "the JPEG data is damaged or truncated"),
    "damaged PNG": (GOOD["PNG"][:60] + b"\xff" + GOOD["PNG"][61:], "damaged or truncated"),
    "animated": (encoded(COLOURS, save_all=True, append_images=BOTH), "is animated; save a"),
    "turned by text": (raw_profile(8), r"has orientation 8 in XMP, a text or .*; rotate it"),
    "turned by XMP": (xmp(6), r"has orientation 6 in XMP, a text or .*; rotate it"),
    "damaged EXIF": (damaged_tags(6), r"has orientation 6 in .* damaged EXIF data; rotate it"),
    "scans": (many_scans(MAX_SCANS), f"has more than {MAX_SCANS} scans; save it as a baseline"),
    "no side": (png(0, 5), "the PNG data is damaged"),
    "bomb": (png(100_000, 100_000), f"100000 x 100000, more than {MAX_PIXELS} pixels"),
    "long": (png(MAX_PIXELS + 1, 1), "more than .* pixels; make it smaller"),
    "overflow": (png(2**32 - 1, 2**32 - 1), "more than .* pixels; make it smaller"),
    "JPEG bomb": (jpeg(65_000, 65_000), "65000 x 65000, more than"),
    "floats": (SMOOTH / 255, "the array must be uint8, from 0 to 255, got float64"),
    "five channels": (np.zeros((4, 4, 5), np.uint8), r"the array must be .*, got .* \(4, 4, 5\)"),
    "batch": (np.zeros((1, 4, 4, 3), np.uint8), r"the array must be .*, got shape \(1, 4, 4, 3\)"),
    "line": (np.zeros(4, np.uint8), r"the array must be \(height, width, 3\), got shape \(4,\)"),
    "empty array": (np.zeros((0, 4, 3), np.uint8), "0 x 4, an image without pixels"),
    "list": ([[1, 2]], "expected a path, encoded bytes, a Pillow image or an array, got list"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_images_raise_by_name(tmp_path: Any, name: str) -> None:
    source, message = BAD[name]
    with pytest.raises(ValueError, match=f"^image 3: .*{message}") as caught:
        read_image(source, 8, where="image 3")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"^the image: "):
        read_image(source)
    if isinstance(source, bytes):
        (tmp_path / "b.jpg").write_bytes(source)
        with pytest.raises(ValueError, match=rf"b\.jpg: .*{message}"):
            read_image(tmp_path / "b.jpg")


REFUSED = ["nothing", "text", "GIF", "BMP", "cut PNG", "cut JPEG", "RIFF", "WebP's header"]
TOO_LARGE = ["bomb", "long", "overflow", "JPEG bomb", "scans", "animated WebP"]


@pytest.mark.parametrize("name", REFUSED + TOO_LARGE)
def test_graph_rejects_invalid_images(graphs: dict[Any, Any], name: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        graphs[8](BAD[name][0])
    if name in TOO_LARGE:
        message = "the image has no pixels, too many pixels or scans, or is animated"
        assert message in str(caught.value)


def draw_over_white(picture: Image.Image) -> np.ndarray:
    """Draw a picture over white with Pillow."""
    above = picture.convert("RGBA")
    white = Image.new("RGBA", above.size, "white")
    return np.asarray(Image.alpha_composite(white, above).convert("RGB"))


CLEAR = COLOURS.convert("RGBA")
CLEAR.putalpha(Image.linear_gradient("L").resize(COLOURS.size))
FEW = COLOURS.quantize(4)
CMYK, LOSSY = encoded(COLOURS.convert("CMYK"), "JPEG"), encoded(COLOURS, "WEBP")
CONVERTED: dict[str, tuple[bytes, np.ndarray]] = {
    "RGBA": (encoded(CLEAR), draw_over_white(CLEAR)),
    "grey with alpha": (encoded(CLEAR.convert("LA")), draw_over_white(CLEAR.convert("LA"))),
    "transparent palette": (
        encoded(COLOURS.convert("P"), transparency=3),
        draw_over_white(Image.open(io.BytesIO(encoded(COLOURS.convert("P"), transparency=3)))),
    ),
    "palette of 2 bits": (encoded(FEW, bits=2), np.asarray(FEW.convert("RGB"))),
    "1 bit": (encoded(COLOURS.convert("1")), draw_over_white(COLOURS.convert("1"))),
    "16 bits": (encoded(Image.fromarray(DEEP)), np.full((4, 4, 3), DEEP[0, 0] >> 8)),
    "CMYK": (CMYK, draw_over_white(Image.open(io.BytesIO(CMYK)))),
    "WebP": (encoded(COLOURS, "WEBP", lossless=True), np.array(COLOURS)),
    "WebP with loss": (LOSSY, draw_over_white(Image.open(io.BytesIO(LOSSY)))),
    "WebP with alpha": (encoded(CLEAR, "WEBP", lossless=True), draw_over_white(CLEAR)),
}
INEXACT = {"CMYK": 8, "WebP with loss": 8}  # decoders differ


@pytest.mark.parametrize("name", CONVERTED)
def test_images_are_converted_as_pillow_does(graphs: dict[Any, Any], name: str) -> None:
    """From a file, in a graph and from a Pillow image; transparent pixels lie over white."""
    raw, expected = CONVERTED[name]
    image = read_image(raw)
    assert np.abs(image.astype(int) - expected).max() <= INEXACT.get(name, 1)
    np.testing.assert_array_equal(graphs[None](raw).numpy(), image)
    picture = Image.open(io.BytesIO(raw))
    assert np.abs(read_image(picture).astype(int) - image).max() <= INEXACT.get(name, 0)
    assert read_image(picture, 8).shape == (8, 8, 3)


def test_arrays_and_pictures_are_drawn_over_white_and_rotated() -> None:
    np.testing.assert_allclose(read_image(np.array(CLEAR)), draw_over_white(CLEAR), atol=1)
    picture = Image.open(io.BytesIO(turned(6, "PNG")))
    np.testing.assert_array_equal(read_image(picture), read_image(turned(6, "PNG")))
    with pytest.raises(ValueError, match=r"^image 3: 0 x 4, an image without pixels"):
        read_image(Image.new("RGB", (4, 0)), where="image 3")


def test_grey_pictures_of_8_and_16_bits() -> None:
    grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
    bits8, bits16 = Image.fromarray(grey).convert("I"), grey.astype(np.uint16) * 256 + 7
    dark = Image.fromarray(np.full((2, 2), 200, np.uint16))
    assert dark.mode == "I;16"
    for picture in (bits8, Image.fromarray(bits16), Image.fromarray(bits16.astype(np.int32))):
        np.testing.assert_array_equal(read_image(picture)[..., 0], grey)
    assert not read_image(dark).any()


LAYOUTS = ["JPEG <", "JPEG >", "PNG <", "PNG >", "late PNG", "WEBP <", "WEBP >"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_are_rotated_by_their_exif_orientation(graphs: dict[Any, Any], layout: str) -> None:
    """All orientations, in Python and in a graph, equal those of Pillow."""
    kind, _, endian = layout.partition(" ")
    upright = read_image(encoded(COLOURS, "PNG" if kind == "late" else kind))
    for orientation in range(1, 9):
        raw = late_tags(orientation) if kind == "late" else turned(orientation, kind, endian)
        picture = Image.fromarray(upright)
        picture.getexif()[ORIENTATION_TAG] = orientation
        expected = np.asarray(ImageOps.exif_transpose(picture))
        assert expected.shape == ((17, 31, 3) if orientation < 5 else (31, 17, 3))
        np.testing.assert_array_equal(read_image(raw), expected)
        for size in (None, (40, 9)):
            np.testing.assert_array_equal(graphs[size](raw).numpy(), read_image(raw, size))
    by_pillow = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(raw))))
    near = 0 if kind in ("PNG", "late") else 8
    assert np.abs(by_pillow.astype(int) - read_image(raw)).max() <= near


@pytest.mark.parametrize("orientation", [0, 9, 300])
def test_invalid_orientations_are_ignored(graphs: dict[Any, Any], orientation: int) -> None:
    raw = turned(orientation, "JPEG")
    np.testing.assert_array_equal(read_image(raw), read_image(GOOD["JPEG"]))
    np.testing.assert_array_equal(graphs[None](raw).numpy(), read_image(GOOD["JPEG"]))


def test_orientation_is_read_before_the_scan_only() -> None:
    """Other segments and fill bytes may precede the tags; data after the scan are ignored."""
    raw, data = GOOD["JPEG"], tags(6)
    segment = b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data
    other = b"\xff\xe1\0\x06abcd\xff\xfe\0\x03a\xff\xff"
    before = raw[:2] + other + segment + raw[2:]
    np.testing.assert_array_equal(read_image(before), np.rot90(read_image(raw), -1))
    assert int(exif_orientation(raw[:-2] + segment + raw[-2:])) == 1


def test_number_of_searched_segments_is_limited(monkeypatch: Any) -> None:
    raw, search = turned(6, "JPEG"), exif_orientation.python_function
    assert int(search(tf.constant(raw))) == 6
    monkeypatch.setattr(graph_orientation, "MAX_SEGMENTS", 3)
    many = raw[:2] + b"\xff\xfe\0\x02" * 3 + raw[2:]
    assert int(search(tf.constant(many))) == 1


def test_exif_data_of_any_length_gives_an_orientation() -> None:
    for raw in (turned(6, "JPEG", ">"), turned(6, "PNG")):
        start = raw.index(b"Exif" if raw[0] == 0xFF else b"eXIf")
        found = [int(exif_orientation(raw[:end])) for end in range(start + 70)]
        assert found == sorted(found)
        assert {*found} == {1, 6}


def test_images_without_or_with_damaged_tags_are_read() -> None:
    broken = encoded(COLOURS, "JPEG", exif=b"Exif\0\0nonsense")
    for raw in (turned(1, "JPEG"), broken, late_tags(1), raw_profile(1), many_scans(20)):
        assert read_image(raw).shape == (17, 31, 3)


def test_missing_files_raise(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=r"none\.jpg: No such file"):
        read_image(tmp_path / "none.jpg")
    with pytest.raises(ValueError, match="Is a directory"):
        read_image(tmp_path)


def test_file_over_the_size_limit_raises(monkeypatch: Any, tmp_path: Any) -> None:
    (tmp_path / "a.png").write_bytes(GOOD["PNG"])
    monkeypatch.setattr(images, "MAX_BYTES", len(GOOD["PNG"]))
    assert read_image(tmp_path / "a.png").shape == (17, 31, 3)
    monkeypatch.setattr(images, "MAX_BYTES", len(GOOD["PNG"]) - 1)
    with pytest.raises(ValueError, match=r"a\.png: more than \d+ bytes; make the image smaller"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("size", [0, -3, (4,), (4, 0), (4, 4, 3), 2.5, "44"])
def test_invalid_image_size_raises(size: Any) -> None:
    with pytest.raises(ValueError, match="expected one side or"):
        read_image(SMOOTH, size)
    with pytest.raises(ValueError, match="expected one side or"):
        graph_image(GOOD["PNG"], size)


@pytest.mark.parametrize("size", [1 << 20, (1, MAX_PIXELS + 1)])
def test_an_enormous_size_is_refused(size: Any) -> None:
    for read in (read_image, graph_image):
        with pytest.raises(ValueError, match=rf"more than {MAX_PIXELS} pixels; make it smaller"):
            read(GOOD["PNG"], size)


@pytest.mark.parametrize("name", ["PNG", "JPEG"])
def test_any_damaged_byte_gives_an_image_or_a_one_line_error(name: str) -> None:
    """All damage of a PNG is found, except in chunks that are not part of the image."""
    rng, good, refused = np.random.default_rng(0), GOOD[name], list[str]()
    for _ in range(100):
        damaged = bytearray(good)
        damaged[rng.integers(len(good))] ^= int(rng.integers(1, 256))
        try:
            found = read_image(bytes(damaged))
        except ValueError as error:
            refused.append(str(error))
        else:
            assert name == "JPEG" or (found == read_image(good)).all()
    assert len(refused) > 10
    assert [text for text in refused if not re.match(r"the image: .*\Z", text)] == []


@pytest.mark.parametrize("length", [8, 15, 16, 25, 26, 40])
def test_graph_rejects_a_truncated_png(length: int) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph_image(GOOD["PNG"][:length], None)
