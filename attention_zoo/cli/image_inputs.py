"""Images for `attention-zoo predict`: files, folders, zip and npz files, and lists of names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attention_zoo.cli.inputs import Item, Layout, find_format, read_items

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
CONTAINERS = (".zip", ".json")
"""Suffixes of files that contain or name several images, apart from lists of paths."""
_CAPTION_NUMBER = re.compile(r"#\d+\t.*", re.DOTALL)


def list_images(
    names: Sequence[str], field: str | None = None, images: str | None = None
) -> Iterator[Item]:
    """Yield the images of files, in every format that image corpora are read from.

    Args:
        names: images; folders (with subfolders) or zips of images; `.npz` files; JSON files in
            COCO's format; lists of paths: one per line, a column of a CSV or TSV, a field of JSON
            lines, or captions `name.jpg#0`, a tab, a caption (each image once).
        field: column or field of the path; array of an `.npz` file; None for the default.
        images: folder of the images; by default, that of the list.
    """
    for name in names:
        path, suffix = Path(name), Path(name).suffix.lower()
        if path.is_dir():
            yield from (Item(str(image), str(image)) for image in find_images(name))
        elif suffix in IMAGE_SUFFIXES:
            yield Item(name, name)
        elif suffix == ".zip":
            yield from _read_zip(name)
        elif suffix == ".npz":
            yield from _read_arrays(name, field)
        else:
            listed = _read_coco(name) if suffix == ".json" else _read_list(name, field)
            folders = [Path(), path.parent, *([Path(images)] if images else [])]
            yield from (_find_image(item, folders) for item in listed)


def find_images(folder: str, name: str | None = None) -> list[Path]:
    """Return the images of a folder and its subfolders, sorted; ValueError if there are none.

    `name` is what the folder is called in the message.
    """
    images = [path for path in Path(folder).rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES]
    if not images:
        suffixes = ", ".join(IMAGE_SUFFIXES)
        raise ValueError(f"{name or folder}: no file ends in {suffixes}; pass a folder of images")
    return sorted(images)


def _find_image(item: Item, folders: Sequence[Path]) -> Item:
    """Return the image of a list, in the first folder that contains its path."""
    if not item.value:
        return replace(item, error=item.error or "is empty; give the path of an image")
    paths = [folder / item.value for folder in folders]
    path = next((path for path in paths if path.exists()), paths[0])
    return replace(item, location=f"{item.location}: {item.value}", value=str(path))


def _read_list(name: str, field: str | None) -> Iterator[Item]:
    """Yield the names in a list; a caption's name is yielded once."""
    file_format = find_format(name)
    default = None if file_format == "text" else "image"
    seen: set[str] = set()
    for item in read_items(name, Layout(file_format, field or default)):
        image = _CAPTION_NUMBER.sub("", item.value or "")
        if image == (item.value or ""):
            yield item
        elif image not in seen:
            seen.add(image)
            yield replace(item, value=image)


def _read_zip(name: str) -> Iterator[Item]:
    """Yield the images of a zip, which is not unpacked to disk."""
    from attention_zoo.data.images.image_files import list_image_files

    with list_image_files(name) as files:
        images = [image for image in files if Path(image).suffix.lower() in IMAGE_SUFFIXES]
        if not images:
            raise ValueError(f"{name}: no file ends in {', '.join(IMAGE_SUFFIXES)}")
        for image in images:
            location = f"{name}/{image}"
            try:
                yield Item(location, files[image]())
            except ValueError as error:
                yield Item(location, error=str(error).removeprefix(f"{location}: "))


def _read_arrays(name: str, field: str | None) -> Iterator[Item]:
    """Yield the images of an array `(N, H, W)` or `(N, H, W, C)` of an npz file."""
    from attention_zoo.data.images.labelled_images import read_npz_pixels

    for number, image in enumerate(read_npz_pixels(name, field), 1):
        yield Item(f"{name}: image {number}", image)


def _read_coco(name: str) -> Iterator[Item]:
    """Yield the file names of a JSON file in COCO's format."""
    from attention_zoo.data.images.caption_files import list_coco_images

    for location, entry in list_coco_images(name):
        value: Any = entry.get("file_name") if isinstance(entry, dict) else None
        if isinstance(value, str):
            yield Item(location, value)
        else:
            yield Item(location, error="has no field 'file_name' with the name of an image")
