"""Images for `attention-zoo predict`: files, folders, zip and npz files, and lists of names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attention_zoo.cli.columns import read_header
from attention_zoo.cli.inputs import find_format, find_suffix, read_items
from attention_zoo.cli.items import Item, Layout, make_item

LIST_FORMATS = ("csv", "jsonl", "text", "tsv")
"""Formats of lists of images that `--format` accepts."""
NO_IMAGE = "no file ends in .jpg, .png or another suffix of an image file"
BLANK_PATH = "is empty; give the path of an image"
"""The error of a blank line or cell."""
_CAPTION_NUMBER = re.compile(r"#\d+\t.*", re.DOTALL)


def has_many_images(name: str) -> bool:
    """Return whether a path is a folder, a zip file or a JSON file of images."""
    return Path(name).is_dir() or find_suffix(name) in (".zip", ".json")


def find_image_format(name: str, layout: Layout, image: str = "image") -> str:
    """Return "folder", "image", "zip", "npz", "coco" or the format of a list of images.

    Args:
        name: the file or folder.
        layout: with a `format`, every file is such a list. Otherwise, the format of a list is found
            from its lines as in training, or from the suffix.
        image: see `list_images`.
    """
    suffix = find_suffix(name)
    if Path(name).is_dir():
        return "folder"
    if not layout.format and _is_image_file(name):
        return "image"
    if not layout.format and suffix in (".zip", ".npz"):
        return suffix[1:]
    file_format = layout.format or find_format(name)
    if not layout.format and Path(name).is_file():  # a pipe cannot be read twice
        file_format = _find_format_of_lines(name, layout, image) or file_format
    if file_format not in (*LIST_FORMATS, "coco"):
        raise ValueError(
            f"{name}: a list of images cannot have format {file_format}; use --format"
            f" {', '.join(LIST_FORMATS[:-1])} or {LIST_FORMATS[-1]}"
        )
    return file_format


def list_images(
    name: str,
    layout: Layout,
    folders: Sequence[str] = (),
    image: str = "image",
    caption: str = "caption",
) -> Iterator[Item]:
    """Yield the images of a file, in every format that image corpora are read from.

    Args:
        name: an image; a folder (with subfolders) or zip of images; an `.npz` file; a JSON file in
            COCO's format; a list of paths: one per line, a column of a CSV or TSV, a field of JSON
            lines, or captions `name.jpg#0`, a tab, a caption. Each image of a list of captions is
            yielded once.
        layout: its `format` is that of `find_image_format`, its `field` the column or field of the
            path, or the array of an `.npz` file.
        folders: folders of the images, beside the current folder and that of the list.
        image, caption: columns of a table of captions; `layout.field` replaces the first.
    """
    if layout.format in _READERS:
        yield from _READERS[layout.format](name, layout)
        return
    is_coco = layout.format == "coco"
    listed = _read_coco(name) if is_coco else _read_list(name, layout, image, caption)
    paths = [Path(), Path(name).parent, *map(Path, folders)]
    yield from (_find_image(item, paths) for item in listed)


def find_images(folder: str, name: str | None = None) -> list[Path]:
    """Return the images of a folder and its subfolders, sorted; ValueError if there are none.

    `name` is what the folder is called in the message.
    """
    from attention_zoo.data.images.image_files import is_image, list_image_files

    with list_image_files(folder) as files:
        images = [Path(folder, image) for image in files if is_image(image, files)]
    if not images:
        raise ValueError(f"{name or folder}: {NO_IMAGE}; pass a folder of images")
    return images


def _is_image_file(name: str) -> bool:
    """Return whether a file is an image by its suffix or its first bytes."""
    from attention_zoo.data.images.formats import SIGNATURES
    from attention_zoo.data.images.image_files import SUFFIXES

    if Path(name).suffix.lower() in SUFFIXES:
        return True
    if not Path(name).is_file():
        return False
    with open(name, "rb") as file:
        return file.read(max(map(len, SIGNATURES))).startswith(SIGNATURES)


def _find_image(item: Item, folders: Sequence[Path]) -> Item:
    """Return the image of a list, in the first folder that contains its path."""
    if not item.value:
        return replace(item, error=item.error or BLANK_PATH)
    paths = [folder / item.value for folder in folders]
    path = next((path for path in paths if path.exists()), paths[0])
    return replace(item, location=f"{item.location}: {item.value}", value=str(path))


def _read_list(name: str, layout: Layout, image: str, caption: str) -> Iterator[Item]:
    """Yield the image paths of a list; with captions, yield each image once."""
    is_table = layout.format in ("csv", "tsv")
    layout = replace(layout, fields=(layout.field or (image if is_table else "image"),))
    has_captions = is_table and Path(name).is_file() and caption in _read_header(name, layout)
    seen: set[str] = set()
    for item in read_items(name, layout):
        value = item.value or ""
        path = value.strip(" ") if is_table else _CAPTION_NUMBER.sub("", value)
        if not (path and (has_captions or (not is_table and path != value))):
            yield replace(item, value=item.value and path)
        elif path not in seen:
            seen.add(path)
            yield replace(item, value=path)


def _find_format_of_lines(name: str, layout: Layout, image: str) -> str:
    """Return the format of a list by the rules for caption files; "" if the suffix decides.

    Raises ValueError for a binary file.
    """
    from attention_zoo.data.images.caption_lines import find_caption_format
    from attention_zoo.data.reading import read_raw_lines

    if find_suffix(name) == ".json" and _is_coco(name):
        return "coco"
    if b"\0" in next(read_raw_lines(name), ("", b""))[1]:
        raise ValueError(
            f"{name}: is neither an image in a known format nor a list of images; pass an image"
            " file or a text file of image paths"
        )
    list_format = find_caption_format(name)
    if list_format != "csv":
        return "text" if list_format == "tokens" else list_format
    header = _read_header(name, replace(layout, format="csv"))
    return "csv" if len(header) > 1 and (layout.field or image) in header else ""


def _is_coco(name: str) -> bool:
    """Return whether a JSON file contains one object, with a list of images, and not JSON lines."""
    from attention_zoo.data.reading import parse_json_object, read_numbered_lines

    location, raw = next(read_numbered_lines(name), (name, b""))
    try:
        return "images" in parse_json_object(location, raw.decode())
    except ValueError:  # the object has several lines, or is damaged
        return True


def _read_header(name: str, layout: Layout) -> list[str]:
    """Return the column names of a table; an empty list if it cannot be read."""
    from attention_zoo.data.reading import read_numbered_lines

    return [column.strip(" ") for column in read_header(read_numbered_lines(name), layout)]


def _read_folder(name: str, _: Layout) -> Iterator[Item]:
    """Yield the images of a folder and its subfolders."""
    for path in find_images(name):
        yield Item(str(path), str(path))


def _read_image(name: str, _: Layout) -> Iterator[Item]:
    yield Item(name, name)


def _read_zip(name: str, _: Layout) -> Iterator[Item]:
    """Yield the images of a zip, which is not unpacked to disk."""
    from attention_zoo.data.images.image_files import is_image, list_image_files

    with list_image_files(name) as files:
        images = [image for image in files if is_image(image, files)]
        if not images:
            raise ValueError(f"{name}: {NO_IMAGE}")
        for image in images:
            yield make_item(f"{name}/{image}", files[image])


def _read_arrays(name: str, layout: Layout) -> Iterator[Item]:
    """Yield the images of an array `(N, H, W)` or `(N, H, W, C)` of an npz file."""
    from attention_zoo.data.images.labelled_images import read_npz_pixels

    for number, image in enumerate(read_npz_pixels(name, layout.field), 1):
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


_READERS: dict[str, Callable[[str, Layout], Iterator[Item]]] = {
    "folder": _read_folder,
    "image": _read_image,
    "zip": _read_zip,
    "npz": _read_arrays,
}
"""The reader of each format that is not a list."""
