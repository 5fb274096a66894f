"""Safetensors reader for one file or several with an index; no code in them is executed.

A file is the length of the header (8 bytes), the header (JSON: dtype, shape and byte offsets of
each tensor) and the bytes. See https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
BFLOAT16 = "BF16"
DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    BFLOAT16: "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "U8": "u1",
    "BOOL": "?",
}
LONGEST_HEADER = 100_000_000


class Tensors(Mapping[str, np.ndarray]):
    """Arrays by name; each is loaded from its file on access.

    Args:
        folder: contains `model.safetensors`, or `model.safetensors.index.json` and its files.

    Raises:
        ValueError: there is no such file, or one is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._entries: dict[str, tuple[Path, int, Any]] = {}
        for path in _files(folder):
            start, header = _header(path)
            for name, entry in header.items():
                if name != "__metadata__":
                    self._entries[name] = path, start, entry

    def __getitem__(self, name: str) -> np.ndarray:
        path, start, entry = self._entries[name]
        try:
            kind, shape = np.dtype(DTYPES[entry["dtype"]]), tuple(map(int, entry["shape"]))
            begin, end = map(int, entry["data_offsets"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: tensor {name} has an unsupported or damaged header entry ({error})"
            ) from None
        size = math.prod(shape)
        if begin < 0 or end - begin != size * kind.itemsize or start + end > path.stat().st_size:
            raise ValueError(
                f"{path}: tensor {name} is truncated or damaged; download the file again"
            )
        array = np.fromfile(path, kind, size, offset=start + begin).reshape(shape)
        if entry["dtype"] == BFLOAT16:  # bfloat16 is the upper half of a float32
            array = (array.astype("<u4") << 16).view("<f4")
        return array

    def renamed(self, rename: Callable[[str], str]) -> Tensors:
        """Return the same tensors under other names."""
        other = copy.copy(self)
        other._entries = {rename(name): entry for name, entry in self._entries.items()}
        return other

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
        hint = (
            f"; {pickled[0]} is pickled Python, which is never loaded: save the model again with"
            " save_pretrained(..., safe_serialization=True)"
            if pickled
            else ""
        )
        raise ValueError(f"{folder}: holds no {FILE}{hint}")
    try:
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
        if not all(Path(name).name == name for name in names):
            raise ValueError("it names files in other folders")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{index}: is not an index of tensors ({error})") from None
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"{folder / missing[0]}: no such file, but {INDEX} names it")
    return [folder / name for name in names]


def _header(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the offset of the bytes, and the header that describes their tensors."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(length) if length <= LONGEST_HEADER else b""
    try:
        header = json.loads(text)
        if len(text) != length or not isinstance(header, dict):
            raise ValueError("the header is truncated")
    except ValueError as error:
        raise ValueError(f"{path}: is not a safetensors file ({error})") from None
    return 8 + length, header
