"""Files of a folder or zip of images, and an array of images of one size."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.examples import ColumnFactory, make_list
from attention_zoo.data.images.formats import SIGNATURES
from attention_zoo.data.images.images import check_bytes, read_bytes
from attention_zoo.data.reading import is_system_file, walk_files
from attention_zoo.files import is_inside

Files = dict[str, Callable[..., bytes]]
"""Functions that read each file, or its first bytes with `count=`, by its name within the folder or
zip."""

_SUFFIXES = (
    "apng avif bmp gif heic heif ico j2k jfif jp2 jpe jpeg jpg jxl pbm pgm pjpeg png pnm ppm psd"
    " svg tga tif tiff webp"
)
SUFFIXES = frozenset(f".{suffix}" for suffix in _SUFFIXES.split())
"""Lower-case suffixes of image files, including formats that `read_image` does not support."""


@contextmanager
def list_image_files(path: str | Path) -> Iterator[Files]:
    """Yield a dictionary of the files of a folder (recursively) or of a zip, sorted by name.

    Symbolic links are followed, except those to a parent folder. Files that operating systems add
    are ignored: names that begin with a dot, `__MACOSX`, `Thumbs.db`, `desktop.ini`. A zip is not
    unpacked to disk.

    Raises:
        ValueError: the path is neither a folder nor a zip; a subfolder cannot be read; a zip has
            two files of the same name, a link, or a name with `..`. When a file is read: it is
            damaged, too large, encrypted, or compressed by an unsupported method.
    """
    root = Path(path)
    if root.is_dir():
        files = {file.relative_to(root).as_posix(): file for file in walk_files(root)}
        yield {name: partial(read_bytes, files[name]) for name in sorted(files)}
        return
    with _open_zip(path) as archive:
        entries: dict[str, zipfile.ZipInfo] = {}
        for entry in archive.infolist():
            name = PurePosixPath(entry.filename.lstrip("/")).as_posix()
            if entry.is_dir() or any(map(is_system_file, name.split("/"))):
                continue
            if not is_inside(name) or stat.S_ISLNK(entry.external_attr >> 16):
                raise ValueError(f"{path}: {name!r} is a link or outside of the zip; repack it")
            if name in entries:
                raise ValueError(f"{path}: has two files named {name!r}; repack it with only one")
            entries[name] = entry
        yield {name: partial(_unzip, archive, entries[name], path) for name in sorted(entries)}


def may_be_image(name: str) -> bool:
    """Return whether a file has the suffix of an image, or none."""
    suffix = PurePosixPath(name).suffix.lower()
    return not suffix or suffix in SUFFIXES


def is_image(name: str, files: Files) -> bool:
    """Return whether a file is an image by its suffix or, without a suffix, by its first bytes.

    A file without a suffix that cannot be read is not an image.
    """
    if PurePosixPath(name).suffix:
        return may_be_image(name)
    try:
        return files[name](count=max(map(len, SIGNATURES))).startswith(SIGNATURES)
    except ValueError:
        return False


def list_image_states(path: str | Path) -> list[tuple[str, int, int]]:
    """Return name, size in bytes and time of modification of the possible images in a folder.

    For a zip, these are its own; the list is empty if the path is neither.
    """
    root = Path(path)
    files = [root]
    if root.is_dir():
        files = [file for file in walk_files(root) if may_be_image(file.name)]
    states = []
    for file in files:
        try:
            state = file.stat()
        except (OSError, ValueError):  # a broken link, no such file, or a null character
            continue
        states.append((file.relative_to(root).as_posix(), state.st_size, state.st_mtime_ns))
    return sorted(states)


class ImageStack:
    """Images of one size, to which images are added, and an entry of each.

    Args:
        column_factory: the images are appended to its column "images", unless that is a list;
            then they are in one array, which grows.
    """

    def __init__(self, column_factory: ColumnFactory = make_list) -> None:
        column = column_factory("images")
        self._column = None if isinstance(column, list) else column
        self._array: NDArray[np.uint8] = np.empty((0, 0, 0, 0), np.uint8)
        self.entries: list[Any] = []
        self._first = ""

    def add(self, location: str, image: NDArray[np.uint8], entry: Any = None) -> None:
        """Append an image, and its name or other data.

        Raises ValueError if its size differs from the first image or memory runs out.
        """
        count = len(self.entries)
        if not count:
            self._array = np.empty((1, *image.shape), np.uint8)
            self._first = location
        if image.shape != self._array.shape[1:]:
            sizes = [" x ".join(map(str, shape)) for shape in (image.shape, self._array.shape[1:])]
            raise ValueError(
                f"{location}: has size {sizes[0]}, but {self._first} has {sizes[1]}; set size to"
                " resize all images"
            )
        if self._column is not None:
            self._column.append(image)
            self.entries.append(entry)
            return
        if count == len(self._array):
            try:
                self._array = np.concatenate([self._array, np.empty_like(self._array)])
            except MemoryError:
                raise ValueError(
                    f"{location}: out of memory after {count} images of this size; set a smaller"
                    " size"
                ) from None
        self._array[count] = image
        self.entries.append(entry)

    def images(self) -> Any:
        """Return all images, `(N, H, W, C)`: an array, or the column."""
        return self._array[: len(self.entries)] if self._column is None else self._column


def _open_zip(path: str | Path) -> zipfile.ZipFile:
    """Open a zip; raise ValueError if it is missing or damaged."""
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
        reason = "neither a folder nor an intact zip; give one of them"
        if isinstance(error, OSError) and error.filename is not None:  # else bad content
            reason = str(error.strerror)
        raise ValueError(f"{path}: {reason}") from None


_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError)
_COMPRESSION_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Supported compression methods. Python decompresses others all at once, whatever the size."""


def _unzip(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: str | Path, count: int | None = None
) -> bytes:
    """Return the bytes of a file in a zip, without exceeding the size that the zip declares.

    With `count`, return its first bytes, whatever its size.
    """
    location = f"{path}/{entry.filename}"
    if count is None:
        check_bytes(location, entry.file_size)
    try:
        if entry.compress_type in _COMPRESSION_METHODS:
            with archive.open(entry) as file:
                return file.read(entry.file_size + 1 if count is None else count)
    except _ZIP_ERRORS:
        raise ValueError(
            f"{location}: the zip data is damaged or truncated; download it again"
        ) from None
    except RuntimeError:
        pass  # encrypted
    raise ValueError(
        f"{location}: encrypted or compressed by an unsupported method; repack the zip with deflate"
        " and without a password"
    )
