"""Images or feature grids of one size in a NumPy file, written and read one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.storage.integers import map_array, write_header


class ImageFile:
    """Images `(N, H, W, C)`, uint8, in a `.npy` file. They are appended first, and then read.

    `images[n]` is an image, mapped into memory; indexing with an array returns a copy of several.

    Args:
        path: the file.
        create: whether to create the file instead of reading it.

    Raises:
        OSError: the file cannot be written or read.
    """

    dtype: np.dtype[Any] = np.dtype(np.uint8)
    ndim = 4

    def __init__(self, path: str | Path, create: bool = False) -> None:
        self.path = Path(path)
        self._file: BinaryIO | None = self.path.open("wb") if create else None
        self._count = 0
        self._image_shape: tuple[int, ...] = ()
        self._images: NDArray[Any] | None = None
        self._rows: NDArray[np.int64] | None = None
        if not create:
            self._map()

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (type(self), self.path, self._rows)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: shape {self.shape} in {self.path}>"

    def append(self, image: NDArray[Any]) -> None:
        """Add an image `(H, W, C)`, of the same size as all others.

        Raises:
            ValueError: the file is complete, or the image has another size.
        """
        if self._file is None:
            raise ValueError(f"{self.path}: the file is complete; no images can be added")
        if not self._count:
            self._image_shape = image.shape
            write_header(self._file, self.dtype, self.shape)
        if image.shape != self._image_shape:
            raise ValueError(f"{self.path}: expected {self._image_shape}, got {image.shape}")
        self._file.write(image.astype(self.dtype, copy=False).tobytes())
        self._count += 1

    def close(self) -> None:
        """Finish writing, and close the file; the images can then be read."""
        if self._file is not None:
            self._file.seek(0)
            write_header(self._file, self.dtype, self.shape)
            self._file.close()
            self._file = None

    def _map(self) -> NDArray[Any]:
        """Return all images of the file, mapped into memory."""
        if self._images is None:
            self.close()
            self._images = map_array(self.path)
            self._count, self._image_shape = len(self._images), self._images.shape[1:]
        return self._images

    def select(self, rows: Iterable[int]) -> Self:
        """Return the images with indices `rows`, without reading them."""
        self._map()
        taken = type(self).__new__(type(self))
        vars(taken).update(vars(self))  # `copy` would open the file again
        indices = np.asarray([*rows], np.int64)
        taken._rows = indices if self._rows is None else self._rows[indices]
        return taken

    @property
    def shape(self) -> tuple[int, ...]:
        """`(N, H, W, C)`."""
        return (len(self), *self._image_shape)

    def __len__(self) -> int:
        return self._count if self._rows is None else len(self._rows)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        images = self._map()
        if self._rows is None:
            return np.asarray(images[index])
        first, *others = index if isinstance(index, tuple) else (index,)
        rows = self._rows[first]
        axes = (slice(None),) * np.ndim(rows)
        return np.asarray(images[rows][(*axes, *others)])

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("the images are in a file, so that their array is a copy")
        return np.array(self[:], dtype)


class FeatureFile(ImageFile):
    """Feature grids `(N, h, w, C)`, float16, in a `.npy` file; see `ImageFile`."""

    dtype = np.dtype(np.float16)


def _load(cls: type[ImageFile], path: Path, rows: NDArray[np.int64] | None) -> ImageFile:
    images = cls(path)
    return images if rows is None else images.select(rows)
