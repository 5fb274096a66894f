"""Files and folders that a recipe's `data` section names."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_zoo.registry import did_you_mean


def check_paths(key: str, value: Any) -> list[str]:
    """Return the paths of an option, one path or a list; raise ValueError for another value."""
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, Sequence) or not all(isinstance(path, str) for path in paths):
        raise ValueError(
            f"{key} must be a path or a list of paths, got {value!r}; put quotes around a path of"
            " digits"
        )
    return list(paths)


def find_files(key: str, paths: Sequence[str]) -> list[str]:
    """Return the existing files and folders of an option.

    `~` is the home folder. A path with `*`, `?` or `[` is a pattern, unless such a file exists; it
    stands for all matching files, sorted.

    Args:
        key: the option, for error messages.
        paths: its paths.

    Raises:
        ValueError: a path does not exist.
    """
    return [file for path in paths for file in _expand(key, path)]


def _expand(key: str, path: str) -> list[str]:
    expanded = os.path.expanduser(path)
    if "\0" in path or Path(expanded).exists():  # readers raise an error for a null character
        return [expanded]
    is_pattern = glob.has_magic(expanded)
    files = sorted(glob.glob(expanded, recursive=True)) if is_pattern else []
    if not files:
        near = "" if is_pattern else did_you_mean(expanded, _list_folder(Path(expanded).parent))
        where = "" if Path(expanded).is_absolute() else f"; the current folder is {_get_folder()}"
        raise ValueError(f"{key}: {path}: no such file or folder{near}{where}")
    return files


def _list_folder(folder: Path) -> list[str]:
    try:
        return [str(path) for path in folder.iterdir()]
    except OSError:
        return []


def _get_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return "deleted"
