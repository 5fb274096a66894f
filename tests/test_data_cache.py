"""The cache of prepared data: an entry is complete or does not exist, and is made once."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from attention_zoo import data_cache
from attention_zoo.data_cache import DataCache, get_default_folder

KEY = {"files": [["train.tsv", "0" * 64]]}


def write_text(folder: Path) -> None:
    (folder / "text").write_text("a b c")


def make(
    cache: DataCache, write: Callable[[Path], None] = write_text, kind: str = "tokens"
) -> Path:
    return cache.load_or_make(kind, "train.tsv", KEY, write)


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
    assert [entry.origin for entry in cache.list()] == ["train.tsv"] * 3


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
    (record,) = caplog.records
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
    assert cache.list() == []
    assert not [path for path in cache.folder.iterdir() if path.is_dir()]
    assert make(cache)


def test_what_a_killed_process_left_is_never_used(cache: DataCache) -> None:
    name = make(cache).name
    cache.clear()
    remains = cache.folder / f".{name}.x7k2"
    remains.mkdir()
    write_text(remains)
    assert cache.list() == []
    make(cache)
    assert not remains.exists()
    remains.mkdir()
    size = cache.list()[0].bytes
    assert size > 5
    assert cache.clear() == (1, size)
    assert not [path for path in cache.folder.iterdir() if path.is_dir()]


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
    assert caplog.records[0].getMessage().startswith("waiting for another process that prepares ")


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_ZOO_CACHE", "~/data")
    assert get_default_folder() == Path.home() / "data"
    monkeypatch.delenv("ATTENTION_ZOO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{os.sep}var")
    assert get_default_folder() == Path("/var/attention_zoo/data")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert get_default_folder() == Path.home() / ".cache" / "attention_zoo" / "data"
