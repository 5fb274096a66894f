"""The cache of prepared data: an entry is complete or does not exist, and is made once."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attention_zoo import data_cache
from attention_zoo.data_cache import DataCache, get_default_folder
from tests.refusals import refuses

KEY = {"files": [["train.tsv", "0" * 64]]}


def write_text(folder: Path) -> None:
    (folder / "text").write_text("a b c")


def make(
    cache: DataCache, write: Callable[[Path], None] = write_text, kind: str = "tokens"
) -> Path:
    return cache.get_or_create(kind, "train.tsv", KEY, write)


def fail(folder: Path) -> None:
    raise AssertionError("an entry that exists is not written again")


@pytest.fixture
def cache(tmp_path: Path) -> DataCache:
    return DataCache(tmp_path / "new" / "cache")


def test_an_entry_is_written_once(cache: DataCache, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(cache)
    assert (folder / "text").read_text() == "a b c"
    assert make(DataCache(cache.folder), fail) == folder
    assert make(cache, kind="tokenizer") != folder
    monkeypatch.setattr(data_cache, "__version__", "99")
    assert make(cache) != folder  # another version may prepare the data differently
    assert [entry.origin for entry in cache.list_entries()] == ["train.tsv"] * 3


@pytest.mark.parametrize("damage", ["truncated", "changed", "missing", "no manifest"])
def test_a_damaged_entry_is_written_again(
    damage: str, cache: DataCache, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make(cache)
    path = folder / ("manifest.json" if damage == "no manifest" else "text")
    if damage in ("missing", "no manifest"):
        path.unlink()
    else:
        path.write_text("a b" if damage == "truncated" else "a b d")
    with caplog.at_level("INFO", "attention_zoo.data"):
        assert make(cache) == folder
    assert (folder / "text").read_text() == "a b c"
    record = caplog.records[0]
    assert record.getMessage().startswith(f"{folder}: {path.name} is ")
    assert record.getMessage().endswith("; preparing the data again")
    assert make(cache, fail) == folder


def test_a_failed_entry_leaves_nothing(cache: DataCache) -> None:
    def fill_disk(folder: Path) -> None:
        write_text(folder)
        raise OSError(errno.ENOSPC, "No space left on device")

    def reject(folder: Path) -> None:
        write_text(folder)
        raise ValueError("train.tsv:3: the field 'fr' is empty")

    with pytest.raises(ValueError, match=r"^data\.cache: .*cache: No space left on device; free"):
        make(cache, fill_disk)
    with pytest.raises(ValueError, match=r"^train\.tsv:3: the field 'fr' is empty$"):
        make(cache, reject)
    assert cache.list_entries() == []
    assert not [path for path in cache.folder.iterdir() if path.is_dir()]
    assert make(cache)


def test_incomplete_entries_are_never_used(cache: DataCache) -> None:
    name = make(cache).name
    cache.clear()
    leftover = cache.folder / f".{name}.x7k2"
    leftover.mkdir()
    write_text(leftover)
    for name in ("entry.json", "manifest.json"):  # killed before the folder was renamed
        (leftover / name).write_text('{"kind": "tokens", "origin": "train.tsv"}')
    assert cache.list_entries() == []
    make(cache)
    assert not leftover.exists()
    leftover.mkdir()
    size = cache.list_entries()[0].bytes
    assert size > 5
    assert cache.clear() == (1, size)
    assert not [path for path in cache.folder.iterdir() if path.is_dir()]


def test_only_entries_are_removed(cache: DataCache) -> None:
    make(cache)
    others = [cache.folder / name for name in (".venv-3.12", ".my-notes.2024", "tokens-1", "data")]
    for folder in others:
        folder.mkdir()
        (folder / "file").write_text("kept")
        (folder / "entry.json").write_text('{"kind": "tokens", "origin": "another program"}')
    (cache.folder / ".pre-commit-config.yaml").write_text("kept")
    assert len(cache.list_entries()) == 1
    assert cache.clear()[0] == 1
    assert all((folder / "file").read_text() == "kept" for folder in others)
    assert (cache.folder / ".pre-commit-config.yaml").exists()


@refuses(
    ("~nosuchuser/cache", r"^data\.cache: ~nosuchuser/cache: .*; name another folder$"),
    ("a\0b", r"^data\.cache: '.*a\\x00b': the path contains a null character$"),
    ("n" * 300, r"^data\.cache: .*n: File name too long; free disk space"),
)
def test_invalid_folders_are_refused(name: str, tmp_path: Path) -> None:
    make(DataCache(name if name.startswith("~") else tmp_path / name))


def test_an_unreadable_entry_is_not_removed(
    cache: DataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real = make(cache), Path.open

    def open_file(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "text":
            raise OSError(errno.EIO, "Input/output error")
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_file)
    with pytest.raises(ValueError, match=r"^data\.cache: .*: text: Input/output error$"):
        make(cache, fail)
    monkeypatch.undo()
    assert make(cache, fail) == folder


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"^data\.cache: .*file/cache: Not a directory; free disk"):
        make(DataCache(tmp_path / "file" / "cache"))


def test_one_process_writes_and_the_others_wait(
    cache: DataCache, caplog: pytest.LogCaptureFixture
) -> None:
    writing, ready = threading.Event(), threading.Event()
    folders = []

    def write_slowly(folder: Path) -> None:
        writing.set()
        assert ready.wait(10)
        write_text(folder)

    def wait() -> None:
        folders.append(make(DataCache(cache.folder), fail))

    with caplog.at_level("INFO", "attention_zoo.data"):
        first = threading.Thread(target=make, args=(cache, write_slowly))
        first.start()
        assert writing.wait(10)
        second = threading.Thread(target=wait)
        second.start()
        while not caplog.records:
            assert second.is_alive()
        ready.set()
        first.join()
        second.join()
    assert folders == [make(cache, fail)]
    assert (
        caplog.records[0]
        .getMessage()
        .startswith("waiting for another process that uses the lock of ")
    )


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_ZOO_CACHE", "~/data")
    assert DataCache(get_default_folder()).folder == Path.home() / "data"
    monkeypatch.delenv("ATTENTION_ZOO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{os.sep}var")
    assert get_default_folder() == Path("/var/attention_zoo/data")
    monkeypatch.delenv("XDG_CACHE_HOME")
    default = DataCache(get_default_folder()).folder
    assert default == Path.home() / ".cache" / "attention_zoo" / "data"
