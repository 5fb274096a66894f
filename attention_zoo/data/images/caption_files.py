"""Readers of captioned images: a folder or zip of images, with a text file or COCO JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from attention_zoo.data.examples import ColumnFactory, make_list
from attention_zoo.data.images.caption_lines import (
    CaptionEntry,
    CaptionLayout,
    CaptionReader,
    get_captions,
    parse_image_name,
)
from attention_zoo.data.images.captions import CaptionedImages
from attention_zoo.data.images.image_files import Files, ImageStack, is_image, list_image_files
from attention_zoo.data.images.images import Size, parse_size, read_image
from attention_zoo.data.progress import log_progress
from attention_zoo.data.reading import (
    BadRowSkipper,
    Paths,
    check_object,
    decode_utf8,
    describe_paths,
    get_field,
    list_paths,
    parse_json_object,
    read_numbered_lines,
)

CAPTION_FILES = tuple(f"captions.jsonl{suffix}" for suffix in ("", ".gz", ".bz2", ".xz"))
"""File names of the captions in an image folder."""

MAX_DOCUMENT_BYTES = 1 << 30
"""Maximum size of a line of a COCO file, which is usually one line."""


def read_captions(
    images: str | Path,
    captions: Paths | None = None,
    size: Size | None = None,
    skip_bad: int = 0,
    shared: bool = False,
    names: Paths | None = None,
    layout: CaptionLayout | None = None,
    column_factory: ColumnFactory = make_list,
) -> CaptionedImages:
    """Read images from a folder or zip, with captions from a text file, in the file's order.

    The file has one of these formats:

    - JSON lines: `{"image": "dogs/1.jpg", "captions": ["A dog runs .", "..."]}`, the name of a file
      in the folder or zip, and one or more captions;
    - "tokens", as in Flickr8k: `dogs/1.jpg#0`, a tab and one caption;
    - CSV with a header and one caption per line: `image,caption`.

    Args:
        images: a folder, or a zip, which is not unpacked to disk.
        captions: the file of captions, or a list of files; UTF-8, compressed or not. By default,
            `captions.jsonl` in the folder, or the same name with .gz, .bz2 or .xz.
        size: size that images are resized to: the side of a square or (height, width). By default,
            images are not resized and must all have the same size.
        skip_bad: maximum number of bad lines, bad images and images without a caption to skip. More
            raise an error.
        shared: whether the folder also has images of other splits, so that images without a caption
            are ignored.
        names: a file with one image name per line, or a list of files: only these images are read.
        layout: the format of the captions; default: found from the lines.
        column_factory: function from the name of a column to an empty column; the column "images"
            is filled image by image. By default, the images are an array in memory.

    Raises:
        ValueError: a missing folder, zip or captions file; no images; a bad line (file:line), with
            invalid UTF-8, no JSON object, a missing or empty field, or an image that is missing or
            repeated; an image that cannot be read (see `read_image`), has no caption, or differs in
            size from the first.
    """
    size = parse_size(size)
    path = captions if captions is not None else _find_captions_file(images)
    skipper = BadRowSkipper(skip_bad)
    reader = CaptionReader(layout or CaptionLayout(), skipper)
    for file in list_paths(path):
        reader.read(file)
    rows = list(reader.entries.values())
    if names is not None:
        rows = _select_names(names, reader.entries, describe_paths(path), skipper)
    listed = None if shared or names is not None else reader.locations.keys()
    stack = ImageStack(column_factory)
    return _read_images(images, describe_paths(path), rows, listed, size, skipper, stack)


def read_coco(
    images: str | Path,
    annotations: Paths,
    size: Size | None = None,
    skip_bad: int = 0,
    shared: bool = False,
    column_factory: ColumnFactory = make_list,
) -> CaptionedImages:
    """Read images from a folder or zip, with captions from a JSON file in COCO's format.

    The JSON is `{"images": [{"id": 7, "file_name": "1.jpg"}, ...], "annotations": [{"image_id": 7,
    "caption": "A dog runs ."}, ...]}`; other fields are ignored. Images, and the captions of each
    image, are in the file's order.

    Args:
        images: a folder, or a zip, which is not unpacked to disk; file names are paths within it.
        annotations: the JSON file, or a list of files; UTF-8, compressed or not.
        size, shared, column_factory: see `read_captions`.
        skip_bad: maximum number of bad entries of either list, bad images and images without a
            caption to skip. More raise an error.

    Raises:
        ValueError: as `read_captions`; invalid JSON, a missing list or field, an annotation without
            an image (the message contains its index in the list, counted from 0).

    Reference:
        Chen et al. 2015, arXiv:1504.00325; the format is that of captions on cocodataset.org.
    """
    size = parse_size(size)
    skipper, locations = BadRowSkipper(skip_bad), dict[str, str]()
    rows: list[CaptionEntry] = []
    for file in list_paths(annotations):
        rows += _read_annotations(file, locations, skipper)
    listed = None if shared else locations.keys()
    stack = ImageStack(column_factory)
    return _read_images(images, describe_paths(annotations), rows, listed, size, skipper, stack)


def _read_annotations(
    path: str, locations: dict[str, str], skipper: BadRowSkipper
) -> list[CaptionEntry]:
    """Return the images of a COCO file with their captions; `locations` are those of all names."""
    content = _read_json(path)
    rows: dict[Any, CaptionEntry] = {}
    for location, entry in _list_entries(path, content, "images"):
        with skipper:
            check_object(location, entry)
            name = parse_image_name(location, entry, "file_name", locations)
            image_id = _get_id(location, entry, "id")
            if image_id in rows:
                raise ValueError(
                    f"{location}: id {image_id!r} is already used in {rows[image_id].location}"
                )
            rows[image_id] = CaptionEntry(location, name, [])
    for location, entry in _list_entries(path, content, "annotations"):
        with skipper:
            image_id = _get_id(location, check_object(location, entry), "image_id")
            captions = get_captions(location, entry, "caption")
            if image_id not in rows:
                raise ValueError(f"{location}: image_id {image_id!r} is not the id of any image")
            rows[image_id].captions.extend(captions)
    return list(rows.values())


def _select_names(
    names: Paths, entries: dict[str, CaptionEntry], captions: str, skipper: BadRowSkipper
) -> list[CaptionEntry]:
    """Return the entries of the images that a file lists, in its order."""
    rows: dict[str, CaptionEntry] = {}
    for location, raw in read_numbered_lines(names):
        with skipper:
            name = decode_utf8(location, raw).strip(" \t")
            if not name:
                continue
            if name in rows:
                raise ValueError(f"{location}: image {name!r} is already listed")
            if name not in entries:
                raise ValueError(f"{location}: image {name!r} has no caption in {captions}")
            rows[name] = entries[name]
    return list(rows.values())


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


def list_coco_images(path: str) -> Iterable[tuple[str, Any]]:
    """Return the images of a JSON file in COCO's format, with their locations for messages.

    Raises ValueError for invalid UTF-8 or JSON, or if the list of images is missing.
    """
    return _list_entries(path, _read_json(path), "images")


def _read_json(path: str) -> dict[str, Any]:
    numbered = read_numbered_lines(path, MAX_DOCUMENT_BYTES)
    lines = [decode_utf8(location, raw) for location, raw in numbered]
    return parse_json_object(path, "\n".join(lines), MAX_DOCUMENT_BYTES)


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


def _read_images(
    images: str | Path,
    captions: str,
    rows: Collection[CaptionEntry],
    listed: Collection[str] | None,
    size: Size | None,
    skipper: BadRowSkipper,
    stack: ImageStack,
) -> CaptionedImages:
    """Read the images of the rows into an empty stack.

    All names are checked before any image is decoded.

    All images must be in `listed`, unless it is None. If all images are in one folder, such as
    that of Flickr8k's zip file, the names need not contain it.
    """
    available: list[CaptionEntry] = []
    with list_image_files(images) as files:
        if not any(row.name in files for row in rows):
            files = _remove_outer_folder(files)
        for row in rows:
            with skipper:
                if row.name not in files:
                    raise ValueError(f"{row.location}: image {row.name!r} is not in {images}")
                if not row.captions:
                    raise ValueError(f"{images}/{row.name}: has no caption in {captions}")
                available.append(row)
        unlisted = [] if listed is None else [name for name in files if name not in listed]
        for name in unlisted:
            with skipper:
                if is_image(name, files):
                    raise ValueError(f"{images}/{name}: has no caption in {captions}")
        for row in log_progress(available, str(images), "images"):
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


def _remove_outer_folder(files: Files) -> Files:
    """Return the files by their names within the outermost folder, if all images are in one."""
    folders = {name.partition("/")[0] for name in files if is_image(name, files) and "/" in name}
    if len(folders) != 1 or any(is_image(name, files) and "/" not in name for name in files):
        return files
    (folder,) = folders
    return {name.removeprefix(f"{folder}/"): read for name, read in files.items()}
