"""Images in folders and zip archives."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from tests.tasks.captioners import encoded


def make_image_file(seed: int, shape: tuple[int, ...] = (5, 7, 3), kind: str = "PNG") -> bytes:
    """Return an image file of random pixels."""
    return encoded(np.random.default_rng(seed).integers(0, 256, shape, np.uint8), kind)


def write_folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, raw in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(raw)
    return path


def write_zip(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path.with_suffix(".zip"), "w", method) as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)
    return path.with_suffix(".zip")
