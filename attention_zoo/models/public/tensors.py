"""Tensors of safetensors files: one file, or several with an index. No code in them is executed."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from attention_zoo.checkpoints.convert import PICKLED, list_indexed_files

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"

MAX_HEADER_BYTES = 1 << 23
"""Maximum size of the header, which needs about 100 bytes for each tensor."""


class Tensors(Mapping[str, np.ndarray]):
    """Arrays by name; each is loaded from its file on access. Those in bfloat16 become float32.

    Args:
        folder: contains `model.safetensors`, or `model.safetensors.index.json` and its files.

    Raises:
        ValueError: there is no such file, or one is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._entries: dict[str, tuple[Path, str, Any]] = {}
        for path in _files(folder):
            _check_header_size(path)
            try:
                file = safe_open(path, framework="numpy")
            except (SafetensorError, OSError) as error:
                raise ValueError(
                    f"{path}: is not a safetensors file or is damaged ({error}); download it again"
                ) from None
            names = file.keys()  # the file itself is not iterable
            self._entries |= {name: (path, name, file) for name in names}

    def __getitem__(self, name: str) -> np.ndarray:
        path, stored_name, file = self._entries[name]
        try:
            array: np.ndarray = file.get_tensor(stored_name)
        except (SafetensorError, AttributeError):  # NumPy has no such dtype
            dtype = file.get_slice(stored_name).get_dtype()
            raise ValueError(
                f"{path}: tensor {name} has dtype {dtype}, which is not supported; save the model"
                " again in float32"
            ) from None
        if array.dtype.name == "bfloat16":
            array = array.astype("float32")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{path}: tensor {name} has a value that is not finite")
        return array

    def count_elements(self) -> int:
        """Return the number of elements of all tensors, without reading them."""
        return sum(
            math.prod(file.get_slice(name).get_shape()) for _, name, file in self._entries.values()
        )

    def renamed(self, rename: Callable[[str], str]) -> Tensors:
        """Return the same tensors under other names."""
        other = copy.copy(self)
        other._entries = {rename(name): entry for name, entry in self._entries.items()}
        return other

    def __contains__(self, name: object) -> bool:  # that of `Mapping` loads the array
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _check_header_size(path: Path) -> None:
    """Raise ValueError if the header of a safetensors file is large, before it is parsed."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if size > MAX_HEADER_BYTES:
        raise ValueError(
            f"{path}: is not a safetensors file or is damaged (its header has {size:,} bytes, the"
            f" maximum is {MAX_HEADER_BYTES:,}); download it again"
        )


def _files(folder: Path) -> list[Path]:
    """Return the files that contain a folder's tensors."""
    if (folder / FILE).is_file():
        return [folder / FILE]
    index = folder / INDEX
    if not index.is_file():
        pickled = sorted(path.name for path in folder.glob("*.bin"))
        convert = "`python -m attention_zoo.checkpoints.convert FOLDER`"
        hint = (
            f"; {pickled[0]} is pickled Python code and is never loaded: convert it with {convert}"
            if pickled
            else "; use another revision of the repository, such as hf://owner/name@refs/pr/4, or"
            f" download its {PICKLED} and run {convert}"
        )
        raise ValueError(f"{folder}: contains no {FILE}{hint}")
    return list_indexed_files(index)
