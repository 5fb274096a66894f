"""Addresses of the hub become folders, or one line that says what to do."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.hub import download, local_folder


def pretend(monkeypatch: pytest.MonkeyPatch, snapshot_download: Any) -> None:
    hub = types.ModuleType("huggingface_hub")
    monkeypatch.setattr(hub, "snapshot_download", snapshot_download, raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)


def test_addresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, list[str] | None]] = []

    def snapshot_download(
        name: str, allow_patterns: list[str] | None, ignore_patterns: list[str]
    ) -> str:
        asked.append((name, allow_patterns))
        assert "*.bin" in ignore_patterns
        return str(tmp_path)

    pretend(monkeypatch, snapshot_download)
    assert download("hf://someone/dates") == tmp_path
    assert local_folder("hf://someone/dates/a/b") == tmp_path / "a" / "b"
    assert asked == [("someone/dates", None), ("someone/dates", ["a/b/*"])]


def test_folders_stay_what_they_are() -> None:
    assert local_folder("some/folder") == Path("some/folder")
    assert local_folder(Path("some/folder")) == Path("some/folder")


def test_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("hf://someone", "hf:///name", "hf://"):
        with pytest.raises(ValueError, match=f"{address}: expected hf://owner/name"):
            download(address)

    def offline(name: str, **options: Any) -> str:
        raise RuntimeError("no way there\nmore about it")

    pretend(monkeypatch, offline)
    with pytest.raises(ValueError, match=r"^hf://someone/dates: no way there$"):
        download("hf://someone/dates")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match="pip install huggingface_hub"):
        download("hf://someone/dates")
