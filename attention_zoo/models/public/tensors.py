"""Tensors of safetensors files: one file, or several with an index. No code in them is executed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from attention_zoo.checkpoints.convert import PICKLED, list_indexed_files

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"


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
        return array.astype("float32") if array.dtype.name == "bfloat16" else array

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
