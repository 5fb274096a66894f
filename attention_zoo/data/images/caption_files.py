"""Readers of captioned images: a folder or zip of images, with JSON lines or COCO JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from attention_zoo.data.images.captions import CaptionedImages
from attention_zoo.data.images.image_files import ImageStack, is_image, list_image_files
from attention_zoo.data.images.images import Size, parse_size, read_image
from attention_zoo.data.reading import (
    BadRowSkipper,
    check_not_blank,
    check_object,
    decode_utf8,
    get_field,
    get_field_texts,
    parse_json_object,
    read_numbered_lines,
)

CAPTION_FILES = ("captions.jsonl", "captions.jsonl.gz")
"""File names of the captions in an image folder."""


class _Entry(NamedTuple):
    """An entry of the captions file: its location, its image file name and its captions."""

    location: str
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
    size = parse_size(size)
    path = Path(captions) if captions is not None else _find_captions_file(images)
    skipper, locations = BadRowSkipper(skip_bad), dict[str, str]()
    rows = []
    for location, raw in read_numbered_lines(path):
        with skipper:
            row = parse_json_object(location, decode_utf8(location, raw))
            name = _parse_image_name(location, row, "image", locations)
            rows.append(_Entry(location, name, _get_captions(location, row, "captions")))
    return _read_images(images, path, rows, locations, size, skipper)


def read_coco(
    images: str | Path, annotations: str | Path, size: Size | None = None, skip_bad: int = 0
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
    size = parse_size(size)
    lines = [decode_utf8(location, raw) for location, raw in read_numbered_lines(annotations)]
    content = parse_json_object(str(annotations), "\n".join(lines))
    skipper, locations = BadRowSkipper(skip_bad), dict[str, str]()
    rows: dict[Any, _Entry] = {}
    for location, entry in _list_entries(annotations, content, "images"):
        with skipper:
            check_object(location, entry)
            name = _parse_image_name(location, entry, "file_name", locations)
            image_id = _get_id(location, entry, "id")
            if image_id in rows:
                raise ValueError(
                    f"{location}: id {image_id!r} is already used in {rows[image_id].location}"
                )
            rows[image_id] = _Entry(location, name, [])
    for location, entry in _list_entries(annotations, content, "annotations"):
        with skipper:
            image_id = _get_id(location, check_object(location, entry), "image_id")
            captions = _get_captions(location, entry, "caption")
            if image_id not in rows:
                raise ValueError(f"{location}: image_id {image_id!r} is not the id of any image")
            rows[image_id].captions.extend(captions)
    return _read_images(images, annotations, rows.values(), locations, size, skipper)


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


def _parse_image_name(
    location: str, row: dict[str, Any], name: str, locations: dict[str, str]
) -> str:
    """Return the image name of a row; raise ValueError if an earlier row has it."""
    image = get_field(location, row, name)
    if not isinstance(image, str):
        raise ValueError(f"{location}: field {name!r} must be the name of an image, got {image!r}")
    if image in locations:
        raise ValueError(
            f"{location}: image {image!r} is already listed in {locations[image]}; give all its"
            " captions there"
        )
    locations[image] = location
    return image


def _list_entries(
    path: str | Path, content: dict[str, Any], name: str
) -> Iterable[tuple[str, Any]]:
    """Return the entries of a list in COCO's JSON, with their locations."""
    items = get_field(str(path), content, name)
    if not isinstance(items, list):
        raise ValueError(f"{path}: field {name!r} must be a list")
    return ((f"{path}: {name}[{index}]", entry) for index, entry in enumerate(items))


def _get_id(location: str, entry: dict[str, Any], name: str) -> int | str:
    image_id = get_field(location, entry, name)
    if not isinstance(image_id, int | str) or isinstance(image_id, bool):
        raise ValueError(
            f"{location}: field {name!r} must be an integer or a string, got {image_id!r}"
        )
    return image_id


def _get_captions(location: str, row: dict[str, Any], name: str) -> list[str]:
    texts = get_field_texts(location, row, name)
    return [check_not_blank(location, text, f"field {name!r}") for text in texts]


def _read_images(
    images: str | Path,
    captions: str | Path,
    rows: Iterable[_Entry],
    locations: dict[str, str],
    size: Size | None,
    skipper: BadRowSkipper,
) -> CaptionedImages:
    """Read the images of the rows. All names are checked before any image is decoded."""
    stack, available = ImageStack(), list[_Entry]()
    with list_image_files(images) as files:
        for row in rows:
            with skipper:
                if row.name not in files:
                    raise ValueError(f"{row.location}: image {row.name!r} is not in {images}")
                if not row.captions:
                    raise ValueError(f"{images}/{row.name}: has no caption in {captions}")
                available.append(row)
        for name in files:
            with skipper:
                if name not in locations and is_image(name, files):
                    raise ValueError(f"{images}/{name}: has no caption in {captions}")
        for row in available:
            with skipper:
                location = f"{images}/{row.name}"
                stack.add(location, read_image(files[row.name](), size, location), row)
    if not stack.entries:
        raise ValueError(
            f"{images}: no image with a caption (bad examples skipped: {skipper.count})"
        )
    return CaptionedImages(
        stack.images(),
        [tuple(row.captions) for row in stack.entries],
        [row.name for row in stack.entries],
        f"{images} and {captions}",
        skipper.count,
    )
