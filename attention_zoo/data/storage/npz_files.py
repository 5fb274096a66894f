"""Arrays of `.npz` files, whose declared shapes and sizes are checked before an array is read."""

from __future__ import annotations

import math
import os
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attention_zoo.files import is_inside
from attention_zoo.json_files import find_repeated

SUFFIX = ".npy"
HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""Functions that read a header, by its version; version 3 is for names of fields."""
NPZ_ERRORS = (
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors that NumPy and zipfile raise for damaged files."""

MAX_ARRAYS = 100_000
"""Maximum number of arrays of a file."""
MAX_RATIO = 100
"""Maximum ratio of the size of all arrays and the size of the file; that of images is below 20."""
MIN_CHECKED_BYTES = 1 << 26
"""Size of all arrays up to which they may be compressed by any ratio."""


class Header(NamedTuple):
    """Shape and dtype of an array, and the size of its header in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    size: int


class NpzFile(Mapping[str, NDArray[Any]]):
    """Arrays of an open `.npz` file by name; each is read on access.

    Attributes:
        headers: the header of each array.

    Args:
        archive: the zip.

    Raises:
        ValueError: an array has Python objects or another size than its header declares, two
            entries have one name, a name is outside of the folder, or a size or number exceeds its
            limit.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        entries = archive.infolist()
        _check_sizes(archive, entries)
        self.headers = {
            entry.filename.removesuffix(SUFFIX): _read_header(archive, entry)
            for entry in entries
            if entry.filename.endswith(SUFFIX)
        }

    def __getitem__(self, name: str) -> NDArray[Any]:
        header = self.headers[name]
        with self._archive.open(f"{name}{SUFFIX}") as file:
            array = npy.read_array(file, allow_pickle=False)
            if array.shape != header.shape or array.dtype != header.dtype or file.read(1):
                raise ValueError(f"array {name!r} does not match its header")
        return np.asarray(array)

    def __iter__(self) -> Iterator[str]:
        return iter(self.headers)

    def __len__(self) -> int:
        return len(self.headers)


@contextmanager
def open_npz(path: str | Path) -> Iterator[NpzFile]:
    """Open an `.npz` file; see `NpzFile`.

    Raises:
        ValueError: as `NpzFile`.
        OSError: the file cannot be read.
        Exception: one of `NPZ_ERRORS`, for a damaged file.
    """
    with zipfile.ZipFile(path) as archive:
        yield NpzFile(archive)


def _check_sizes(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> None:
    """Raise ValueError if the number, the names or the sizes of entries are not plausible."""
    if len(entries) > MAX_ARRAYS:
        raise ValueError(f"has {len(entries):,} arrays, the maximum is {MAX_ARRAYS:,}")
    outside = [entry.filename for entry in entries if not is_inside(entry.filename)]
    if outside:
        raise ValueError(f"has an entry {outside[0]!r}, which is outside of the folder")
    repeated = find_repeated(entry.filename for entry in entries)
    if repeated is not None:
        raise ValueError(f"has two entries named {repeated!r}")
    file: Any = archive.fp
    file_size = os.fstat(file.fileno()).st_size
    stored = sum(entry.compress_size for entry in entries)
    unpacked = sum(entry.file_size for entry in entries)
    if stored > file_size:
        raise ValueError(f"declares {stored:,} bytes in a file of {file_size:,}")
    if unpacked > max(MIN_CHECKED_BYTES, MAX_RATIO * file_size):
        raise ValueError(
            f"declares {unpacked:,} bytes in a file of {file_size:,}, more than {MAX_RATIO} times"
            " its size"
        )


def _read_header(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Header:
    """Return the header of an array, whose size is that of its entry in the zip."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"array {entry.filename!r} is compressed by an unsupported method")
    try:
        with archive.open(entry) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers by Python 2; `read_array` repeats it
            read = HEADER_READERS[npy.read_magic(file)]
            shape, _, dtype = read(file)
            size = file.tell()
    except Exception as error:  # NumPy raises errors of Python's parser
        raise ValueError(f"array {entry.filename!r} has a damaged header") from error
    if dtype.hasobject:
        raise ValueError(f"array {entry.filename!r} contains Python objects")
    declared = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or declared != entry.file_size - size:
        raise ValueError(
            f"array {entry.filename!r} declares shape {shape} of {dtype}, which does not match its"
            f" {entry.file_size - size:,} bytes"
        )
    return Header(shape, dtype, size)
