"""Download of hub addresses, and errors with the fix."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx2 as httpx
import huggingface_hub
import pytest
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from attention_zoo.hub import download, resolve_folder
from tests.hub import use_cache, write_repository


def write_content(folder: Path) -> Path:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "config.json").write_text("{}")
    (folder / "task.json").write_text("{}")
    return folder


def test_addresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = write_content(tmp_path / "content")
    use_cache(monkeypatch, tmp_path)
    main = write_repository(tmp_path, "someone/dates", content)
    assert download("hf://someone/dates") == main
    assert (main / "task.json").is_file()
    assert resolve_folder("hf://someone/dates/a/b") == main / "a" / "b"
    other = write_repository(tmp_path, "someone/other", content, "refs/pr/4")
    assert download("hf://someone/other@refs/pr/4") == other
    assert resolve_folder("hf://someone/other/a/b@refs/pr/4") == other / "a" / "b"
    with pytest.raises(ValueError, match=r"^hf://someone/other: Cannot find an appropriate cached"):
        download("hf://someone/other")


def test_pickled_weights_are_not_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot_download(name: str, **options: Any) -> str:
        assert {"*.bin", "*.pt", "tf_model.h5"} <= {*options["ignore_patterns"]}
        assert options["allow_patterns"] == ["a/b/*"]
        return name

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert download("hf://someone/dates/a/b") == Path("someone/dates/a/b")


def test_local_folders_are_unchanged() -> None:
    assert resolve_folder("some/folder") == Path("some/folder")
    assert resolve_folder(Path("some/folder")) == Path("some/folder")


def test_invalid_addresses_and_failed_downloads_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("hf://someone", "hf:///name", "hf://", "hf://someone/dates@"):
        with pytest.raises(ValueError, match=f"{address}: expected hf://owner/name"):
            download(address)
    response = httpx.Response(404, request=httpx.Request("GET", "https://huggingface.co"))
    revision, repository = RevisionNotFoundError, RepositoryNotFoundError
    address = "hf://someone/dates@v9"
    errors = {
        r"^hf://someone/dates@v9: no way there$": RuntimeError("no way there\nmore about it"),
        r"dates@v9: the repository has no revision 'v9'$": revision("404", response=response),
        r"dates@v9: no such repository, or it is private$": repository("404", response=response),
    }
    for message, error in errors.items():

        def raise_error(name: str, error: Exception = error, **options: Any) -> str:
            raise error

        monkeypatch.setattr(huggingface_hub, "snapshot_download", raise_error)
        with pytest.raises(ValueError, match=message):
            download(address)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"pip install 'attention-zoo\[hub\]'"):
        download(address)
