"""Small checkpoints written by `transformers`, and helpers to modify them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
CODES = {"float32": "F32", "float16": "F16", "int64": "I64", "uint16": "BF16", "uint8": "U8"}


def write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Write a safetensors file; uint16 arrays are bfloat16, the upper halves of float32."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in tensors.items():
        begin, data = len(data), data + array.tobytes()
        offsets = [begin, len(data)]
        entry = {"dtype": CODES[array.dtype.name], "shape": array.shape, "data_offsets": offsets}
        header[name] = entry
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def copy_of(family: str, folder: Path) -> Path:
    """Return a copy of a golden checkpoint that a test may change."""
    return Path(shutil.copytree(GOLDEN / family, folder / family))


def change_config(folder: Path, **changes: Any) -> None:
    """Change values of config.json; None removes a key."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def expected(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "expected.npz") as file:
        return {name: file[name] for name in file.files}


def find_transformers() -> str:
    """Return the Python of the environment with torch and `transformers`; skip without one.

    `make bench-peers` installs it, or an environment variable names a Python that has it.
    """
    python = Path(
        os.environ.get("TRANSFORMERS_PYTHON", ROOT / ".venv-transformers" / "bin" / "python")
    )
    if not python.is_file():
        pytest.skip(
            "no Python with transformers: run `make bench-peers`, or set TRANSFORMERS_PYTHON"
        )
    return str(python)


def written_by_transformers(family: str, folder: Path, *settings: str) -> Path:
    """Return a checkpoint written by `transformers`; skip the test if it is not installed."""
    script = Path(__file__).with_name("by_transformers.py")
    command = [find_transformers(), str(script), family, str(folder), *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder
