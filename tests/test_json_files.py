"""Limits on untrusted JSON: size, nesting depth and number of values."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.json_files import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    MAX_VOCABULARY_BYTES,
    MAX_VOCABULARY_VALUES,
    parse_strict_json,
    read_limited,
    read_limited_lines,
    read_strict_json,
)
from tests.refusals import refuses


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, True, "ä"], "b": {"a": {}}}, [], "x", 10**30, -math.inf]
)
def test_values_are_read_as_python_writes_them(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value, indent=2))
    assert read_strict_json(path) == value
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    assert read_strict_json(path) == value


def test_deepest_value_is_read() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_strict_json(text) is not None
    with pytest.raises(ValueError, match="is nested deeper than 64 levels"):
        parse_strict_json(f"[{text}]")


@refuses(
    ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' is repeated"),
    ("[" * 100_000, "is nested deeper than 64 levels"),
    ("[" + "0," * MAX_VALUES + "0]", "has more than 1,048,576 values"),
    ("[" + "0," * MAX_VOCABULARY_VALUES + "0]", "has more than 2,621,440 values"),
    ("[" + "[]," * (MAX_VALUES // 2 + 1) + "0]", "has more than 1,048,576 values"),
    ('{"a": 1', "Expecting"),
    (b"\xff", "can't decode byte"),
    ("", "Expecting value"),
)
def test_invalid_json_raises(content: str | bytes) -> None:
    parse_strict_json(content)


def test_large_vocabularies_are_read(tmp_path: Path) -> None:
    """A tokenizer with arrays of two strings has more values than a file of settings may have."""
    path = tmp_path / "tokenizer.json"
    count = MAX_VALUES // 3 + 1
    path.write_text('{"merges": [' + '["ab",\n"cd"],\n' * count + "[]]}")
    assert path.stat().st_size > MAX_BYTES
    assert len(read_strict_json(path, MAX_VOCABULARY_BYTES)["merges"]) == count + 1


def test_large_files_devices_and_pipes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    os.truncate(path, MAX_BYTES)
    assert len(read_limited(path)) == MAX_BYTES
    os.truncate(path, MAX_BYTES + 1)
    with pytest.raises(ValueError, match="has 4,194,305 bytes, the maximum is 4,194,304"):
        read_strict_json(path)
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ValueError, match="is not a regular file"):
            read_limited(name)
    with pytest.raises(FileNotFoundError):
        read_limited(tmp_path / "missing")


def test_number_of_lines_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\n" * MAX_VALUES)
    assert len(read_limited_lines(path)) == MAX_VALUES
    path.write_bytes(b"\n" * (MAX_VALUES + 1))
    with pytest.raises(ValueError, match="has more than 1,048,576 lines"):
        read_limited_lines(path)
