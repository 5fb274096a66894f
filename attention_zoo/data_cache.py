"""Cache of prepared data: entries are written once, completely, and are never changed."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from attention_zoo.files import MANIFEST, create_folder, find_damage, write_manifest
from attention_zoo.version import __version__

LOGGER = logging.getLogger("attention_zoo.data")
"""Logger of `data.progress`."""

FORMAT_VERSION = 1
INFO = "entry.json"
FOLDER_VARIABLE = "ATTENTION_ZOO_CACHE"
"""Environment variable that names the default folder."""


def get_default_folder() -> Path:
    """Return the default folder: `$ATTENTION_ZOO_CACHE`, or `~/.cache/attention_zoo/data`."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).expanduser()
    parent = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(parent) / "attention_zoo" / "data"


class CacheEntry(NamedTuple):
    """An entry of the cache.

    Attributes:
        folder: its folder.
        kind: "examples", "fingerprint", "tokenizer" or "tokens".
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
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()

    def load_or_make(
        self,
        kind: str,
        origin: str,
        key: Mapping[str, Any],
        write: Callable[[Path], None],
    ) -> Path:
        """Return the folder of an entry; if there is none, or a damaged one, write it first.

        Args:
            kind: see `CacheEntry`.
            origin: the source of the data, for `list`.
            key: everything that determines the content, as JSON values.
            write: function that writes the files of the entry to a folder.

        Raises:
            ValueError: the cache cannot be written, or `write` raises one. Nothing is left of an
                entry that was not completed.
        """
        name = f"{kind}-{compute_key(kind, key)}"
        folder = self.folder / name
        if self._is_intact(folder):
            return folder
        with self._explain_errors(), self._hold_lock(name):
            if not folder.exists() or find_damage(folder):  # else another process has written it
                for remains in (folder, *self.folder.glob(f".{name}.*")):
                    if remains.is_dir():
                        shutil.rmtree(remains)
                with create_folder(folder) as temporary:
                    write(temporary)
                    text = json.dumps({"kind": kind, "origin": origin})
                    (temporary / INFO).write_text(text, "utf-8")
                    write_manifest(temporary)
        return folder

    def _is_intact(self, folder: Path) -> bool:
        """Return whether an entry exists and all its files match their checksums."""
        if not folder.exists():
            return False
        damage = find_damage(folder)
        if damage:
            LOGGER.info("%s: %s; preparing the data again", folder, damage)
        return not damage

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise ValueError(
                f"data.cache: {self.folder}: {reason}; free disk space or change the permissions,"
                " set data.cache to a folder on another disk, or set data.cache=false"
            ) from None

    @contextmanager
    def _hold_lock(self, name: str) -> Iterator[None]:
        """Hold the lock of an entry; wait if another process is writing it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # A soft lock, which filelock can fall back to, outlives a process that is killed. The files
        # of locks are never removed, because a process may wait for one; their number is limited.
        lock = FileLock(self.folder / f".lock-{name[-2:]}", fallback_to_soft=False)
        try:
            held = lock.acquire(blocking=False)
        except Timeout:
            LOGGER.info("waiting for another process that prepares %s", self.folder / name)
            held = lock.acquire()
        with held:
            yield

    def list(self) -> list[CacheEntry]:
        """Return all complete entries, the newest first."""
        entries = [
            entry
            for path in (self.folder.iterdir() if self.folder.is_dir() else ())
            if (entry := _read_entry(path)) is not None
        ]
        return sorted(entries, key=lambda entry: (-entry.created, entry.folder))

    def clear(self) -> tuple[int, int]:
        """Remove all entries, and what killed processes have left.

        Returns:
            The number of entries that were removed, and the size of their files in bytes.

        Raises:
            OSError: an entry cannot be removed.
        """
        entries = self.list()
        for entry in entries:
            with self._hold_lock(entry.folder.name):
                shutil.rmtree(entry.folder, ignore_errors=not entry.folder.exists())
        for remains in self.folder.glob(".*-*.*") if self.folder.is_dir() else ():
            with self._hold_lock(remains.name.split(".")[1]):
                shutil.rmtree(remains, ignore_errors=not remains.exists())
        return len(entries), sum(entry.bytes for entry in entries)


def _read_entry(folder: Path) -> CacheEntry | None:
    """Return the entry in a folder, or None if the folder is not an entry."""
    try:
        info = json.loads((folder / INFO).read_text("utf-8"))
        files = [path.stat() for path in folder.iterdir()]
        created = (folder / MANIFEST).stat().st_mtime
        return CacheEntry(
            folder, info["kind"], info["origin"], sum(file.st_size for file in files), created
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


class StoredCorpus(NamedTuple):
    """A corpus in the cache.

    Attributes:
        cache: the cache.
        key: hash of everything that determines the examples.
        origin: the source of the data.
    """

    cache: DataCache
    key: str
    origin: str

    def derive(self, kind: str, key: Mapping[str, Any], write: Callable[[Path], None]) -> Path:
        """Return the folder of an entry that is computed from the examples; see `DataCache`."""
        return self.cache.load_or_make(kind, self.origin, {"examples": self.key, **key}, write)


def compute_key(kind: str, key: Mapping[str, Any]) -> str:
    """Return the hash of a key, of this version of the package, as 32 hexadecimal digits."""
    text = json.dumps([FORMAT_VERSION, __version__, kind, key], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
