"""`task.json`, the file that names a saved task and its options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attention_zoo.files import check_format_version

FORMAT_VERSION = 1
RENAMED_OPTIONS: dict[str, str] = {"cut_source": "truncate_source"}
"""New names of options in earlier recipes and `task.json` files."""


def read_task_file(folder: str | Path) -> dict[str, Any]:
    """Read `task.json` of a task folder; raise ValueError if it is missing or damaged."""
    path = Path(folder) / "task.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; give a folder that `task.save` wrote") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: damaged ({error}); use another checkpoint") from None
    if not isinstance(content, dict) or not isinstance(content.get("task"), str):
        raise ValueError(f"{path}: the field 'task' is missing. Use another checkpoint.")
    check_format_version(path, content, FORMAT_VERSION)
    for old, new in RENAMED_OPTIONS.items():
        if old in content:
            content[new] = content.pop(old)
    return content
