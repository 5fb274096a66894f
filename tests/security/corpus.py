"""Registry of hostile files, and a run of a loader on one with the memory and time it needs."""

from __future__ import annotations

import gzip
import os
import pickle
import re
import shutil
import struct
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from attention_zoo import tasks
from attention_zoo.files import write_manifest

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
PADDING = 400 << 20
"""Size of a padded file, which is sparse and needs no disk space."""
DEPTH = 100_000


class Workspace:
    """Workspace folder of a case.

    Args:
        folder: an empty folder.
        saved: a saved task, see `save_task`.
    """

    def __init__(self, folder: Path, saved: Path) -> None:
        self.folder, self._saved = folder, saved
        self.marker = folder / "marker"

    def copy_task(self) -> Path:
        """Return a copy of the saved task."""
        return Path(shutil.copytree(self._saved, self.folder / "task"))

    def copy_checkpoint(self, family: str) -> Path:
        """Return a copy of a public checkpoint."""
        return Path(shutil.copytree(GOLDEN / family, self.folder / family))

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file, and return its path."""
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def make_pickle(self) -> bytes:
        """Return a pickle that creates the marker when it is loaded."""
        return pickle.dumps(Payload(str(self.marker)))


class Payload:
    """An object whose pickle creates a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self.path,))


@dataclass(frozen=True)
class Case:
    """A hostile file, a function that loads it, and the message of its refusal.

    Args:
        write: function that writes the file, and returns the argument of `load`.
        load: the loader.
        message: regular expression of a part of the message.
    """

    write: Callable[[Workspace], Any]
    load: Callable[[Any], object]
    message: str


CASES: dict[str, Case] = {}


def add_case(name: str, load: Callable[[Any], object], message: str, write: Any) -> None:
    """Add a case to the corpus."""
    assert name not in CASES
    CASES[name] = Case(write, load, message)


@dataclass(frozen=True)
class Outcome:
    """What a loader did: the message of its ValueError, CPU seconds, and growth of the memory."""

    message: str
    seconds: float
    megabytes: float


def run_case(case: Case, folder: Path, saved: Path) -> Outcome:
    """Write the file of a case and load it; raise AssertionError unless it is refused.

    Other errors than ValueError are not caught.
    """
    workspace = Workspace(folder, saved)
    argument = case.write(workspace)
    before, start = reset_peak(), time.process_time()
    try:
        case.load(argument)
    except ValueError as error:
        message = str(error)
    else:
        raise AssertionError("the file was loaded")
    outcome = Outcome(message, time.process_time() - start, read_peak() - before)
    assert re.search(case.message, message), message
    assert len(message.splitlines()) == 1, message
    assert not workspace.marker.exists(), "the payload was executed"
    return outcome


def reset_peak() -> float:
    """Start a new measurement of the peak of this process's memory; return its memory in MB."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _read_status("VmRSS")


def read_peak() -> float:
    """Return the peak of this process's memory since `reset_peak`, in MB."""
    return _read_status("VmHWM")


def _read_status(field: str) -> float:
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:  # not Linux
        return 0.0
    match = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) / 1024 if match else 0.0


def save_task(folder: Path) -> Path:
    """Save a small translator, with files in their present format, and return its folder."""
    shutil.unpack_archive(GOLDEN / "formats/task_seq2seq_b964e343.tar.xz", folder, filter="data")
    tasks.load(folder).save(folder / "saved")
    return folder / "saved"


def rewrite_manifest(model: Path) -> None:
    """Rewrite the manifest of a model folder, as an attacker can."""
    write_manifest(model, ("config.json", "model.weights.h5"))


def pad(path: Path, size: int = PADDING) -> Path:
    """Extend a file sparsely."""
    os.truncate(path, size)
    return path


def nest(depth: int = DEPTH) -> str:
    """Return a deeply nested JSON array, which is YAML too."""
    return "[" * depth + "]" * depth


def make_npy(shape: tuple[int, ...], data: bytes = b"", descr: str = "|u1") -> bytes:
    """Return a `.npy` file whose header declares this shape, with other data."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}}}"
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + data


def write_zip(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    """Write a zip with compressed entries, whose names may repeat."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def declare_size(path: Path, size: int) -> Path:
    """Change the unpacked size that the directory of a zip with one entry declares."""
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\1\2")
    content[at + 24 : at + 28] = struct.pack("<I", size)
    path.write_bytes(content)
    return path


def zeros_gz(count: int, end: bytes = b"") -> bytes:
    """Return compressed bytes 0."""
    return gzip.compress(b"\0" * count + end, 1)


def write_dataset(path: Path, create: Callable[[h5py.Group, str], Any]) -> None:
    """Replace the first matrix of a weights file by what a function creates in its group."""
    matrices: list[str] = []

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim == 2:
            matrices.append(name)

    with h5py.File(path, "r+") as file:
        file.visititems(add)
        group, _, name = matrices[0].rpartition("/")
        del file[matrices[0]]
        create(file[group], name)


def fill_weights(path: Path, value: float) -> None:
    """Set all weights of a file to a value."""

    def fill(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f":
            item[...] = np.full(item.shape, value, item.dtype)

    with h5py.File(path, "r+") as file:
        file.visititems(fill)
