"""The command `cache`: what it prints, and what it removes."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_zoo.data_cache import DataCache
from tests.cli.test_main import Capture, output, refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Cache with two entries."""
    cache = DataCache(tmp_path / "cache")
    for kind in ("examples", "tokens"):
        cache.get_or_create(
            kind, "train.tsv", {}, lambda folder: (folder / "data").write_bytes(b"0" * 2_000_000)
        )
    return cache.folder


def test_entries_are_listed_and_removed(folder: Path, capsys: Capture) -> None:
    *entries, total = output(capsys, "cache", "list", "--folder", folder).splitlines()
    assert sorted(" ".join(line.split()[2:]) for line in entries) == [
        "2.0 MB examples train.tsv",
        "2.0 MB tokens train.tsv",
    ]
    assert total == f"{folder}: 2 entries, 4.0 MB"
    assert output(capsys, "cache", "clear", "--folder", folder) == (
        f"{folder}: removed 2 entries, 4.0 MB\n"
    )
    assert output(capsys, "cache", "list", "--folder", folder) == f"{folder}: 0 entries, 0.0 MB\n"


def test_the_default_folder(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_ZOO_CACHE", str(folder))
    assert "2 entries" in output(capsys, "cache", "list")
    monkeypatch.setenv("ATTENTION_ZOO_CACHE", str(folder / "missing"))
    assert "0 entries" in output(capsys, "cache", "list")
    assert "removed 0 entries" in output(capsys, "cache", "clear")


def test_bad_input(folder: Path, capsys: Capture) -> None:
    assert "unknown action 'clean'; did you mean 'clear'" in refused(capsys, "cache", "clean")
    missing = folder / "missing"
    assert f"{missing}: no such folder" in refused(capsys, "cache", "list", "--folder", missing)
