"""Readers of captioned images: a folder or zip of images, with JSON lines or COCO JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from attention_zoo.data.images.captions import CaptionedImages
from attention_zoo.data.images.image_files import ImageStack, image_files, is_image
from attention_zoo.data.images.images import Size, check_size, read_image
from attention_zoo.data.text.reading import (
    Skips,
    decoded,
    field,
    field_texts,
    filled,
    json_object,
    numbered_lines,
    parsed,
)

CAPTION_FILES = ("captions.jsonl", "captions.jsonl.gz")
"""File names of the captions in an image folder."""


class _CaptionEntry(NamedTuple):
    """An entry of the captions file: its location, its image file name and its captions."""

    where: str
    name: str
    captions: list[str]


def read_captions(
    images: str | Path,
    captions: str | Path | None = None,
    size: Size | None = None,
    skip_bad: int = 0,
) -> CaptionedImages:
    """Read images from a folder or zip, with captions from a JSON lines file, in the file's order.

    A line is `{"image": "dogs/1.jpg", "captions": ["A dog runs .", "..."]}`: the name of a file in
    the folder or zip, and one or more captions.

    Args:
        images: a folder, or a zip, which is not unpacked to disk.
        captions: the JSON lines file, UTF-8, gzipped or not. By default, `captions.jsonl` or
            `captions.jsonl.gz` in the folder.
        size: size that images are resized to: the side of a square or (height, width). By default,
            images are not resized and must all have the same size.
        skip_bad: maximum number of bad lines, bad images and images without a caption to skip. More
            raise an error.

    Raises:
        ValueError: a missing folder, zip or captions file; no images; a bad line (file:line), with
            invalid UTF-8, no JSON object, a missing or empty field, or an image that is missing or
            repeated; an image that cannot be read (see `read_image`), has no caption, or differs in
            size from the first.
    """
    check_size(size)
    path = Path(captions) if captions is not None else _find_captions_file(images)
    skips, locations = Skips(skip_bad), dict[str, str]()
    rows = []
    for where, raw in numbered_lines(path):
        with skips:
            row = json_object(where, decoded(where, raw))
            name = _read_new_name(where, row, "image", locations)
            texts = field_texts(where, row, "captions")
            texts_of_image = [filled(where, text, "field 'captions'") for text in texts]
            rows.append(_CaptionEntry(where, name, texts_of_image))
    return _read(images, path, rows, locations, size, skips)


def read_coco(
    images: str | Path,
    annotations: str | Path,
    size: Size | None = None,
    skip_bad: int = 0,
) -> CaptionedImages:
    """Read images from a folder or zip, with captions from a JSON file in COCO's format.

    The JSON is `{"images": [{"id": 7, "file_name": "1.jpg"}, ...], "annotations": [{"image_id": 7,
    "caption": "A dog runs ."}, ...]}`; other fields are ignored. Images, and the captions of each
    image, are in the file's order.

    Args:
        images: a folder, or a zip, which is not unpacked to disk; file names are paths within it.
        annotations: the JSON file, UTF-8, gzipped or not.
        size: see `read_captions`.
        skip_bad: maximum number of bad entries of either list, bad images and images without a
            caption to skip. More raise an error.

    Raises:
        ValueError: as `read_captions`; invalid JSON, a missing list or field, an annotation without
            an image (the message contains its index in the list, counted from 0).

    Reference:
        Chen et al. 2015, arXiv:1504.00325; the format is that of captions on cocodataset.org.
    """
    check_size(size)
    lines = [decoded(where, raw) for where, raw in numbered_lines(annotations)]
    content = parsed(str(annotations), "\n".join(lines))
    if not isinstance(content, dict):
        raise ValueError(f"{annotations}: not a JSON object; expected {{...}}")
    skips, locations = Skips(skip_bad), dict[str, str]()
    rows: dict[Any, _CaptionEntry] = {}
    for where, entry in _entries(annotations, content, "images"):
        with skips:
            name = _read_new_name(where, _check_object(where, entry), "file_name", locations)
            number = _read_id(where, entry, "id")
            if number in rows:
                raise ValueError(f"{where}: id {number!r} is already used in {rows[number].where}")
            rows[number] = _CaptionEntry(where, name, [])
    for where, entry in _entries(annotations, content, "annotations"):
        with skips:
            number = _read_id(where, _check_object(where, entry), "image_id")
            texts = field_texts(where, entry, "caption")
            if number not in rows:
                raise ValueError(f"{where}: image_id {number!r} is not the id of any image")
            rows[number].captions.extend([filled(where, text, "field 'caption'") for text in texts])
    return _read(images, annotations, rows.values(), locations, size, skips)


def _find_captions_file(images: str | Path) -> Path:
    """Return the path of the captions file in an image folder."""
    if not Path(images).is_dir():
        raise ValueError(
            f"{images}: not a folder, so it has no captions file; give the path of one"
        )
    for name in CAPTION_FILES:
        if (path := Path(images) / name).exists():
            return path
    raise ValueError(f"{images}: has no {CAPTION_FILES[0]}; give the path of the captions file")


def _read_new_name(where: str, row: dict[str, Any], name: str, locations: dict[str, str]) -> str:
    """Return the image name of a row; raise ValueError if an earlier row has it."""
    image = field(where, row, name)
    if not isinstance(image, str):
        raise ValueError(f"{where}: field {name!r} must be the name of an image, got {image!r}")
    if image in locations:
        raise ValueError(
            f"{where}: image {image!r} is already listed in {locations[image]}; give all its"
            " captions there"
        )
    locations[image] = where
    return image


def _entries(path: str | Path, content: dict[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    """Return the entries of a list in COCO's JSON, with their locations."""
    entries = field(str(path), content, name)
    if not isinstance(entries, list):
        raise ValueError(f"{path}: field {name!r} must be a list")
    return ((f"{path}: {name}[{index}]", entry) for index, entry in enumerate(entries))


def _check_object(where: str, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: not a JSON object; expected {{...}}")
    return entry


def _read_id(where: str, entry: dict[str, Any], name: str) -> int | str:
    number = field(where, entry, name)
    if not isinstance(number, int | str) or isinstance(number, bool):
        raise ValueError(f"{where}: field {name!r} must be an integer or a string, got {number!r}")
    return number


def _read(
    images: str | Path,
    captions: str | Path,
    rows: Iterable[_CaptionEntry],
    locations: dict[str, str],
    size: Size | None,
    skips: Skips,
) -> CaptionedImages:
    """Read the images of the rows. All names are checked before any image is decoded."""
    stack, present = ImageStack(), list[_CaptionEntry]()
    with image_files(images) as files:
        for row in rows:
            with skips:
                if row.name not in files:
                    raise ValueError(f"{row.where}: image {row.name!r} is not in {images}")
                if not row.captions:
                    raise ValueError(f"{images}/{row.name}: has no caption in {captions}")
                present.append(row)
        for name in files:
            with skips:
                if name not in locations and is_image(name, files):
                    raise ValueError(f"{images}/{name}: has no caption in {captions}")
        for row in present:
            with skips:
                where = f"{images}/{row.name}"
                stack.add(where, read_image(files[row.name](), size, where), row)
    if not stack.entries:
        raise ValueError(f"{images}: no image with a caption (bad examples skipped: {skips.count})")
    return CaptionedImages(
        stack.images(),
        [tuple(row.captions) for row in stack.entries],
        [row.name for row in stack.entries],
        f"{images} and {captions}",
        skips.count,
    )
