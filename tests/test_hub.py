"""Download of hub addresses, and errors with the fix."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.hub import download, resolve_folder


def mock_hub(monkeypatch: pytest.MonkeyPatch, snapshot_download: Any) -> None:
    hub = types.ModuleType("huggingface_hub")
    monkeypatch.setattr(hub, "snapshot_download", snapshot_download, raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)


def test_download_of_addresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requests: list[tuple[str, list[str] | None]] = []

    def snapshot_download(
        name: str, allow_patterns: list[str] | None, ignore_patterns: list[str]
    ) -> str:
        requests.append((name, allow_patterns))
        assert "*.bin" in ignore_patterns
        return str(tmp_path)

    mock_hub(monkeypatch, snapshot_download)
    assert download("hf://someone/dates") == tmp_path
    assert resolve_folder("hf://someone/dates/a/b") == tmp_path / "a" / "b"
    assert requests == [("someone/dates", None), ("someone/dates", ["a/b/*"])]


def test_local_folders_are_unchanged() -> None:
    assert resolve_folder("some/folder") == Path("some/folder")
    assert resolve_folder(Path("some/folder")) == Path("some/folder")


def test_invalid_addresses_and_failed_downloads_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("hf://someone", "hf:///name", "hf://"):
        with pytest.raises(ValueError, match=f"{address}: expected hf://owner/name"):
            download(address)

    def raise_error(name: str, **options: Any) -> str:
        raise RuntimeError("no way there\nmore about it")

    mock_hub(monkeypatch, raise_error)
    with pytest.raises(ValueError, match=r"^hf://someone/dates: no way there$"):
        download("hf://someone/dates")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"pip install 'attention-zoo\[hub\]'"):
        download("hf://someone/dates")
