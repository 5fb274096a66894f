"""Arrays of integers that are collected part by part, in memory or in a NumPy file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

CHUNK = 2**20
"""Number of integers that are converted at a time."""


class IntegerList:
    """A one-dimensional array of integers that is collected part by part, in memory.

    Args:
        dtype: type of the array.
    """

    def __init__(self, dtype: type) -> None:
        self._parts: list[NDArray[Any]] = [np.zeros(0, dtype)]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def extend(self, values: NDArray[Any]) -> None:
        """Add integers."""
        self._parts.append(values)

    def close(self) -> None:
        """Do nothing: there is no file."""

    def read(self) -> NDArray[Any]:
        """Return all integers."""
        self._parts = [np.concatenate(self._parts)]
        return self._parts[0]


class IntegerFile:
    """A one-dimensional array of non-negative integers in a `.npy` file, written part by part.

    Its type is uint16, or uint32 if an integer needs it.

    Args:
        path: the file.
        create: whether to create the file instead of reading it.

    Raises:
        OSError: the file cannot be written or read.
    """

    def __init__(self, path: Path, create: bool = False) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._length = 0 if create else len(map_array(path))
        if create:
            self._create(np.uint16)

    def __len__(self) -> int:
        return self._length

    def _create(self, dtype: type) -> BinaryIO:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._file = self._path.open("wb")
        write_header(self._file, self._dtype, (0,))
        return self._file

    def extend(self, values: NDArray[Any]) -> None:
        """Add integers; raise ValueError if the file is closed."""
        if self._file is None:
            raise ValueError(f"{self._path}: the file is complete; no integers can be added")
        if values.max(initial=0) > np.iinfo(self._dtype).max:
            self._widen()
        self._file.write(values.astype(self._dtype).tobytes())
        self._length += len(values)

    def _widen(self) -> None:
        """Write the file again, as uint32."""
        self.close()
        narrow = self._path.with_name(f"{self._path.name}.narrow")
        self._path.rename(narrow)
        file = self._create(np.uint32)
        values = map_array(narrow)
        for start in range(0, len(values), CHUNK):
            file.write(values[start : start + CHUNK].astype(self._dtype).tobytes())
        del values
        narrow.unlink()

    def close(self) -> None:
        """Write the final header and close the file."""
        if self._file is not None:
            self._file.seek(0)
            write_header(self._file, self._dtype, (self._length,))
            self._file.close()
            self._file = None

    def read(self) -> NDArray[Any]:
        """Return all integers, mapped into memory; no more can be added."""
        self.close()
        return map_array(self._path)


def write_header(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Write the header of a `.npy` file.

    NumPy pads it, so that its size does not depend on the length of the first axis.
    """
    descr = npy.dtype_to_descr(dtype)
    npy.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def map_array(path: Path) -> NDArray[Any]:
    """Return the array of a `.npy` file, mapped into memory."""
    return np.asarray(np.load(path, mmap_mode="r"))


def shrink_integers(values: NDArray[Any]) -> NDArray[Any]:
    """Return non-negative integers as int32 if they fit, else as int64, to save memory."""
    fits = values.max(initial=0) <= np.iinfo(np.int32).max
    return values.astype(np.int32 if fits else np.int64, copy=False)


IntegerStore = IntegerList | IntegerFile
