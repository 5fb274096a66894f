"""Cache of prepared data: entries are written once, completely, and are never changed."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from attention_zoo.files import MANIFEST, create_folder, find_damage, write_manifest
from attention_zoo.json_files import read_strict_json
from attention_zoo.version import __version__

LOGGER = logging.getLogger("attention_zoo.data")
"""Logger of `data.progress`."""

FORMAT_VERSION = 1
INFO = "entry.json"
KINDS = ("examples", "features", "fingerprint", "tokenizer", "tokens")
ENTRY_NAME = re.compile(rf"\.?((?:{'|'.join(KINDS)})-[0-9a-f]{{32}})(?:\.\w+)?")
"""Name of the folder of an entry; it begins with a dot while the entry is incomplete."""
FOLDER_VARIABLE = "ATTENTION_ZOO_CACHE"
"""Environment variable that names the default folder."""


def get_default_folder() -> Path:
    """Return the default folder.

    It is `$ATTENTION_ZOO_CACHE`, or `attention_zoo/data` in `$XDG_CACHE_HOME` (default `~/.cache`).
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "attention_zoo" / "data"


class CacheError(ValueError):
    """The cache cannot be read or written."""


class CacheEntry(NamedTuple):
    """An entry of the cache.

    Attributes:
        folder: its folder.
        kind: one of `KINDS`.
        origin: the source of the data.
        bytes: size of its files.
        created: time of creation, in seconds since 1970.
    """

    folder: Path
    kind: str
    origin: str
    bytes: int
    created: float


class DataCache:
    """Cache of prepared data in a folder.

    The name of an entry is a hash of everything that determines its content, so entries do not
    become outdated. Several processes can use a cache: one writes an entry, the others wait for it.

    Args:
        folder: the folder, which is created with the first entry.

    Raises:
        CacheError: the home folder, which the name contains, is unknown, or the name is invalid.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            self.folder = Path(folder).expanduser()
        except RuntimeError as error:
            raise CacheError(f"data.cache: {folder}: {error}; name another folder") from None
        if "\0" in str(folder):
            raise CacheError(f"data.cache: {str(folder)!r}: the path contains a null character")

    def create_folder(self) -> None:
        """Create the folder of the cache; raise ValueError if that fails."""
        with self._explain_errors():
            self.folder.mkdir(parents=True, exist_ok=True)

    def get_or_create(
        self,
        kind: str,
        origin: str,
        key: Mapping[str, Any],
        write: Callable[[Path], object],
        wait: bool = True,
    ) -> Path:
        """Return the folder of an entry; write the entry first if it is missing or damaged.

        Args:
            kind: see `CacheEntry`.
            origin: the source of the data, for `list_entries`.
            key: everything that determines the content, as JSON values.
            write: function that writes the files of the entry to a folder.
            wait: whether to wait if another process may be writing the entry, which is otherwise
                not written.

        Raises:
            CacheError: the cache cannot be written; the incomplete entry is deleted. So it is if
                `write` raises a ValueError.
        """
        folder = self._get_folder(kind, key)
        with self._explain_errors():
            if not self._is_intact(folder):
                with self._hold_lock(folder.name, wait) as is_held:
                    if is_held and not self._is_intact(folder):  # no other process has written it
                        self._remove(folder)
                        self._write(folder, {"kind": kind, "origin": origin}, write)
        return folder

    def has_entry(self, kind: str, key: Mapping[str, Any]) -> bool:
        """Return whether an entry exists; its files may be damaged."""
        return self._get_folder(kind, key).exists()

    def try_remove(self, kind: str, key: Mapping[str, Any]) -> None:
        """Remove an entry, if it exists and no other process may be writing it."""
        folder = self._get_folder(kind, key)
        if folder.exists():
            with self._explain_errors(), self._hold_lock(folder.name, wait=False) as is_held:
                if is_held:
                    self._remove(folder)

    def _get_folder(self, kind: str, key: Mapping[str, Any]) -> Path:
        return self.folder / f"{kind}-{compute_key(kind, key)}"

    def _write(
        self, folder: Path, info: Mapping[str, str], write: Callable[[Path], object]
    ) -> None:
        with create_folder(folder) as temporary:
            write(temporary)
            (temporary / INFO).write_text(json.dumps(info), "utf-8")
            write_manifest(temporary)

    def _is_intact(self, folder: Path) -> bool:
        """Return whether an entry exists and all its files match their checksums.

        Raises:
            ValueError: a file cannot be read.
        """
        if not folder.exists():
            return False
        damage = find_damage(folder)
        if damage is None:
            return True
        if damage.reason not in (" is missing", " is damaged"):
            raise CacheError(f"data.cache: {folder}: {damage}")
        LOGGER.info("%s: %s; preparing the data again", folder, damage)
        return False

    def _remove(self, folder: Path) -> None:
        """Remove an entry, and incomplete ones of the same name, while its lock is held."""
        if folder.exists():  # a reader must not see a part of it
            folder.rename(self.folder / f".{folder.name}.removed")
        for leftover in self.folder.glob(f".{folder.name}.*"):
            shutil.rmtree(leftover)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise CacheError(
                f"data.cache: {self.folder}: {reason}; free disk space or change the permissions,"
                " set data.cache to a folder on another disk, or set data.cache=false"
            ) from None

    @contextmanager
    def _hold_lock(self, name: str, wait: bool = True) -> Iterator[bool]:
        """Hold the lock of an entry, and yield whether it is held.

        If another process holds it, wait, or yield false.
        """
        lock = self._make_lock(name)
        try:
            held = lock.acquire(blocking=False)
        except Timeout:
            if not wait:
                yield False
                return
            LOGGER.info("waiting for another process that uses the lock of %s", self.folder / name)
            held = lock.acquire()
        with held:
            yield True

    def _make_lock(self, name: str) -> FileLock:
        """Return the lock of an entry, one of 4,096, which it may share with other entries."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # A soft lock, which filelock can fall back to, outlives a process that is killed. The files
        # are never removed, because a process may be waiting for one.
        return FileLock(self.folder / f".lock-{name[-3:]}", fallback_to_soft=False)

    def list_entries(self) -> list[CacheEntry]:
        """Return all complete entries, the newest first."""
        paths = self.folder.glob("[!.]*-*") if self.folder.is_dir() else ()
        entries = [entry for path in paths if (entry := _read_entry(path)) is not None]
        return sorted(entries, key=lambda entry: (-entry.created, entry.folder))

    def clear(self) -> tuple[int, int]:
        """Remove all entries, and incomplete entries of killed processes.

        Returns:
            The number of entries that were removed, and the size of their files in bytes.

        Raises:
            OSError: an entry cannot be removed.
        """
        entries = self.list_entries()
        paths = [*self.folder.iterdir()] if self.folder.is_dir() else []
        names = {found[1] for path in paths if (found := ENTRY_NAME.fullmatch(path.name))}
        for name in sorted(names):
            with self._hold_lock(name):
                self._remove(self.folder / name)
        return len(entries), sum(entry.bytes for entry in entries)


def _read_entry(folder: Path) -> CacheEntry | None:
    """Return the entry in a folder, or None if the folder is not an entry."""
    try:
        info = read_strict_json(folder / INFO)
        files = [path.stat() for path in folder.iterdir()]
        created = (folder / MANIFEST).stat().st_mtime
        return CacheEntry(
            folder, info["kind"], info["origin"], sum(file.st_size for file in files), created
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


class CorpusCache(NamedTuple):
    """Cache of data that is computed from one corpus.

    Attributes:
        cache: the cache.
        examples_hash: hash of everything that determines the examples.
        origin: the source of the data.
    """

    cache: DataCache
    examples_hash: str
    origin: str

    def get_or_create(
        self,
        kind: str,
        key: Mapping[str, Any],
        write: Callable[[Path], object],
        wait: bool = True,
    ) -> Path:
        """Return the folder of an entry that is computed from the examples; see `DataCache`."""
        return self.cache.get_or_create(kind, self.origin, self._extend_key(key), write, wait)

    def has_entry(self, kind: str, key: Mapping[str, Any]) -> bool:
        """Return whether an entry exists; its files may be damaged."""
        return self.cache.has_entry(kind, self._extend_key(key))

    def try_remove(self, kind: str, key: Mapping[str, Any]) -> None:
        """Remove an entry, if it exists and no other process may be writing it."""
        self.cache.try_remove(kind, self._extend_key(key))

    def _extend_key(self, key: Mapping[str, Any]) -> dict[str, Any]:
        return {"examples": self.examples_hash, **key}


def get_corpus_cache(examples: Any) -> CorpusCache | None:
    """Return the cache of a corpus; None if it has none, as a corpus of a user's class."""
    cache: CorpusCache | None = getattr(examples, "cache", None)
    return cache


def is_builtin(value: Any) -> bool:
    """Return whether the class of a value, or a class, is defined in attention_zoo.

    Data that other classes prepare is not cached, because their code may change without a change of
    the key.
    """
    cls = value if isinstance(value, type) else type(value)
    return cls.__module__.startswith("attention_zoo.")


def compute_key(kind: str, key: Mapping[str, Any]) -> str:
    """Return the first 32 digits of the SHA-256 of a kind, a key and the versions in use."""
    versions = [FORMAT_VERSION, __version__, version("tokenizers"), unicodedata.unidata_version]
    text = json.dumps([versions, kind, key], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
