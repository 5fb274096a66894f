"""Readers of untrusted JSON files, with limits on size, nesting depth and number of values."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

MAX_BYTES = 1 << 22
"""Maximum size of a file of settings, such as a config or a manifest. The largest have the names of
20,000 classes, twice, in 2 MB."""
MAX_RECIPE_BYTES = 1 << 16
"""Maximum size of a recipe; those of the zoo are below 4 kB, and YAML is slow to parse."""
MAX_VOCABULARY_BYTES = 40 << 20
"""Maximum size of a file with a vocabulary or tokenizer, or with hashes of examples; Gemma's
`tokenizer.json` has 33 MB."""
MAX_DEPTH = 64
"""Maximum number of nested objects and arrays in a file of settings."""
MAX_VALUES = 1 << 20
"""Maximum number of values, and of keys, in a text; Python needs about 64 bytes for each."""
MAX_VOCABULARY_VALUES = 5 << 19
"""The same for a text above `MAX_BYTES`, which is a vocabulary. One of 250,000 tokens has 2 million
values if its merges are arrays of two strings."""


def read_limited(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Return the bytes of a regular file.

    Args:
        path: the file.
        limit: maximum number of bytes. A larger file is not read.

    Raises:
        ValueError: the file is too large, or a device or pipe.
        OSError: the file cannot be read.
    """
    with open(path, "rb", opener=_open_without_blocking) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise ValueError("is not a regular file")
        if state.st_size > limit:
            raise ValueError(f"has {state.st_size:,} bytes, the maximum is {limit:,}")
        return file.read(limit)


def _open_without_blocking(path: str, flags: int) -> int:
    """Open a file without blocking on a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_limited_lines(path: Path) -> bytes:
    """Return the bytes of a file with a vocabulary, one entry per line.

    Raises:
        ValueError: the file has more than `MAX_VOCABULARY_BYTES` or `MAX_VALUES` lines.
        OSError: the file cannot be read.
    """
    content = read_limited(path, MAX_VOCABULARY_BYTES)
    if content.count(b"\n") > MAX_VALUES:
        raise ValueError(f"has more than {MAX_VALUES:,} lines")
    return content


def read_strict_json(path: Path, limit: int = MAX_BYTES) -> Any:
    """Return the value of a JSON file; see `parse_strict_json` and `read_limited`.

    Raises:
        ValueError: the file is too large, is not valid, or exceeds a limit.
        OSError: the file cannot be read.
    """
    return parse_strict_json(read_limited(path, limit))


def parse_strict_json(content: bytes | str) -> Any:
    """Parse JSON without repeated keys; `NaN` and `Infinity` are numbers, as Python writes them.

    Args:
        content: the text, as UTF-8 if it is bytes.

    Raises:
        ValueError: the text is not valid JSON, repeats a key, has more than `MAX_VALUES` values (or
            `MAX_VOCABULARY_VALUES`) or is nested deeper than `MAX_DEPTH`.
    """
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    check_value_count(text, MAX_VALUES if len(text) <= MAX_BYTES else MAX_VOCABULARY_VALUES)
    try:
        value = json.loads(text, object_pairs_hook=_make_object)
    except RecursionError:
        _refuse_depth()
    _check_depth(value, MAX_DEPTH)
    return value


def check_value_count(text: str, limit: int) -> None:
    """Raise ValueError if a JSON text may have more than `limit` values, before it is parsed."""
    if len(text) > limit and text.count(",") + text.count("[") + text.count("{") > limit:
        raise ValueError(f"has more than {limit:,} values")


def find_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs before, or None."""
    known: set[str] = set()
    for name in names:
        if name in known:
            return name
        known.add(name)
    return None


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError(f"the key {find_repeated(name for name, _ in pairs)!r} is repeated")
    return content


def _check_depth(value: Any, depth: int) -> None:
    """Raise ValueError if a value has more than `depth` nested lists and dicts."""
    if isinstance(value, dict | list):
        if not depth:
            _refuse_depth()
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth - 1)


def _refuse_depth() -> NoReturn:
    raise ValueError(f"is nested deeper than {MAX_DEPTH} levels") from None
