"""Corpora of files whose examples are kept in the cache, so that they are parsed only once."""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from dataclasses import dataclass, fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from attention_zoo.data.examples import ColumnFactory, Examples, make_list
from attention_zoo.data.progress import LOGGER, log_progress
from attention_zoo.data.storage.example_files import load_examples, write_examples
from attention_zoo.data_cache import (
    CacheError,
    CorpusCache,
    DataCache,
    get_default_folder,
    is_builtin,
)
from attention_zoo.extras import describe_missing
from attention_zoo.tasks.corpora import FileCorpus

MIN_BYTES = 16 * 10**6
"""Size of the files of a split from which they are cached by default."""

NOT_IN_KEY = ("train", "validation", "test", "split", "cache")
"""Options left out of the key, which contains the hashes of the files."""


@dataclass
class CachedCorpus(FileCorpus):
    """Base class of corpora of files with a cache of their examples.

    A subclass implements `_read_files`.

    Args:
        cache: folder of the cache of prepared data; true is the default folder, false no cache,
            null the default folder if the files of the split have 16 MB or more.
    """

    cache: Any = None

    examples_class: ClassVar[type[Examples]]
    """Class of the examples."""
    example_limits: ClassVar[tuple[str, ...]] = ()
    """Limits that the examples depend on, not only their token ids."""
    folders: ClassVar[tuple[str, ...]] = ()
    """Options with folders of images, which are not in the key: the images are."""

    def __post_init__(self) -> None:
        if not (self.cache is None or isinstance(self.cache, bool | str)) or self.cache == "":
            raise ValueError(
                f"data.cache must be a folder, true, false or null, got {self.cache!r}"
            )
        if self.cache and find_spec("pyarrow") is None:
            raise ValueError(f"data.cache: {describe_missing('pyarrow')}")
        super().__post_init__()

    @abstractmethod
    def _read_files(self, split: str, column_factory: ColumnFactory) -> Examples:
        """Return the examples of a split; `column_factory` makes an empty column with a name."""

    def _list_files(self, split: str) -> list[str]:
        """Return the files of a split, whose content is a part of the key."""
        return self.find_files(split)

    def _describe_images(self, split: str) -> dict[str, Any]:
        """Return what determines the images of a split, a part of the key.

        `files` has the name, the size in bytes and the time of modification of each.
        """
        return {}

    def _read(self, split: str) -> Examples:
        if self.cache is False or not is_builtin(self):
            return self._read_files(split, make_list)
        try:
            return self._read_cached(split)
        except CacheError as error:
            if self.cache is not None:
                raise
            LOGGER.info("large data is prepared at each start, without a cache: %s", error)
            return self._read_files(split, make_list)

    def _read_cached(self, split: str) -> Any:
        """Return the examples of a split from the cache; they are in memory if they are small."""
        files, images = self._list_files(split), self._describe_images(split)
        cache = self._find_cache(files, images)
        if cache is None:
            return self._read_files(split, make_list)
        for file in files:  # a pattern may match files of the cache
            if os.path.realpath(file).startswith(f"{os.path.realpath(cache.folder)}{os.sep}"):
                raise ValueError(f"{file} is in the cache {cache.folder}; set another data.cache")
        before = {file: get_state(file) for file in files}
        task_options = (*self.limits, *self.boolean_options, *self.task_options)
        options = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in (*NOT_IN_KEY, *task_options, *self.folders)
            or field.name in self.example_limits
        }
        hashes = [[file, hash_file(file)] for file in files]
        key: dict[str, Any] = {
            "corpus": type(self).__qualname__,
            "options": options,
            "files": hashes,
        }
        if images:
            key["images"] = images
        origin = ", ".join(files)

        def write(folder: Path) -> None:
            try:
                write_examples(folder, partial(self._read_files, split))
            except UnicodeEncodeError:
                raise CacheError(
                    f"data.cache: {origin}: text that is not valid Unicode cannot be cached; set"
                    " data.cache=false"
                ) from None
            after = {file: get_state(file) for file in self._list_files(split)}
            if after != before or self._describe_images(split) != images:
                raise ValueError(f"{origin}: changed while it was read; start again")

        folder = cache.get_or_create("examples", origin, key, write)
        examples = load_examples(folder, self.examples_class)
        corpus_cache = CorpusCache(cache, folder.name, origin)
        object.__setattr__(examples, "cache", corpus_cache)  # the dataclass is frozen
        return examples

    def _find_cache(self, files: list[str], images: dict[str, Any]) -> DataCache | None:
        """Return the cache for these files; None if their examples are kept in memory.

        Raises:
            ValueError: the recipe asks for a cache that cannot be used for these files.
        """
        if not all(map(os.path.isfile, files)):
            return None
        sizes = [*map(os.path.getsize, files), *(size for _, size, _ in images.get("files", ()))]
        if self.cache is None and sum(sizes) < MIN_BYTES:
            return None
        return open_cache(self.cache if isinstance(self.cache, str) else None, files)


def open_cache(folder: str | None, files: list[str]) -> DataCache:
    """Return the cache in a folder, which is created; None is the default folder.

    Raises:
        CacheError: the folder cannot be used, pyarrow is missing, or a file cannot be cached.
    """
    if find_spec("pyarrow") is None:
        raise CacheError(f"data.cache: {describe_missing('pyarrow')}")
    cache = DataCache(folder or get_default_folder())
    for file in files:
        if not file.isprintable():
            raise CacheError(f"{file!r}: a path with such characters cannot be cached; rename it")
    cache.create_folder()
    return cache


def get_state(path: str) -> tuple[int, ...] | None:
    """Return numbers that change with the content of a file; None if there is no such file."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def hash_file(path: str) -> str:
    """Return the SHA-256 of a file; raise ValueError if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            parts = iter(lambda: file.read(10**6), b"")
            for part in log_progress(parts, f"{path}: computing the SHA-256", "MB"):
                digest.update(part)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    return digest.hexdigest()
