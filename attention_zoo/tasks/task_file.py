"""`task.json`, the file that names a saved task and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_zoo.files import read_json

FORMAT_VERSION = 1
RENAMED_OPTIONS: dict[str, str] = {"cut_source": "truncate_source"}
"""Present names of options by the names in earlier files."""


def read_task_file(folder: str | Path) -> dict[str, Any]:
    """Read `task.json` of a task folder; raise ValueError if it is missing or damaged."""
    path = Path(folder) / "task.json"
    try:
        content = read_json(path, FORMAT_VERSION, "use another checkpoint")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; give a folder that `task.save` wrote") from None
    if not isinstance(content.get("task"), str):
        raise ValueError(f"{path}: the field 'task' is missing. Use another checkpoint.")
    for old, new in RENAMED_OPTIONS.items():
        if old in content:
            content[new] = content.pop(old)
    return content
