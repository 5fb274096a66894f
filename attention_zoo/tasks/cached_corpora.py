"""Corpora of files whose examples are kept in the cache, so that they are read only once."""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from attention_zoo.data.cache.stored_examples import load_examples, write_examples
from attention_zoo.data.examples import Examples, NewColumn, new_list
from attention_zoo.data.progress import LOGGER, log_progress
from attention_zoo.data_cache import (
    DataCache,
    StoredCorpus,
    compute_key,
    get_default_folder,
)
from attention_zoo.extras import describe_missing
from attention_zoo.tasks.corpora import FileCorpus

MIN_BYTES = 16 * 2**20
"""Size of the files of a split from which they are cached by default."""

NOT_IN_KEY = ("train", "validation", "test", "split", "cache")
"""Options that do not determine the examples; the key has the files themselves."""


@dataclass
class CachedCorpus(FileCorpus):
    """Base class of corpora of files with a cache of their examples.

    A subclass implements `_read_files`.

    Args:
        cache: folder of prepared data: examples, vocabularies and token ids. null is the default
            folder (`attention-zoo cache list` prints it), for splits with files of 16 MB or more;
            true is the default folder for files of any size, false is no cache.
    """

    cache: Any = None

    examples_class: ClassVar[type[Examples]]
    """Class of the examples."""

    def __post_init__(self) -> None:
        if not (self.cache is None or isinstance(self.cache, bool | str)) or self.cache == "":
            raise ValueError(
                f"data.cache must be a folder, true, false or null, got {self.cache!r}"
            )
        if self.cache and find_spec("pyarrow") is None:
            raise ValueError(f"data.cache: {describe_missing('pyarrow')}")
        super().__post_init__()

    @abstractmethod
    def _read_files(self, split: str, new_column: NewColumn) -> Examples:
        """Return the examples of a split; `new_column` makes an empty column with a name."""

    def _read(self, split: str) -> Examples:
        files = self.find_files(split)
        cache = self._find_cache(files)
        if cache is None:
            return self._read_files(split, new_list)
        before = [*map(read_state, files)]
        options = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in (*NOT_IN_KEY, *self.limits, *self.boolean_options)
        }
        hashes = [[file, hash_file(file)] for file in files]
        key = {"corpus": type(self).__qualname__, "options": options, "files": hashes}
        origin = ", ".join(files)

        def write(folder: Path) -> None:
            write_examples(folder, lambda new_column: self._read_files(split, new_column))
            changed = [f for f, state in zip(files, before, strict=True) if read_state(f) != state]
            if changed:
                raise ValueError(f"{changed[0]}: changed while it was read; start again")

        folder = cache.load_or_make("examples", origin, key, write)
        examples = load_examples(folder, self.examples_class)
        stored = StoredCorpus(cache, compute_key("examples", key), origin)
        object.__setattr__(examples, "stored", stored)  # the dataclass is frozen
        return examples

    def _find_cache(self, files: list[str]) -> DataCache | None:
        """Return the cache for these files; None if their examples are kept in memory."""
        is_ours = type(self).__module__.startswith("attention_zoo.")
        if self.cache is False or not is_ours or not all(map(os.path.isfile, files)):
            return None  # a reader that is not part of this package may change
        if self.cache is None:
            if sum(os.path.getsize(file) for file in files) < MIN_BYTES:
                return None
            if find_spec("pyarrow") is None:
                LOGGER.info(
                    "%s; without it, large data is prepared at each start",
                    describe_missing("pyarrow"),
                )
                return None
        return DataCache(self.cache if isinstance(self.cache, str) else get_default_folder())


def read_state(path: str) -> tuple[int, int]:
    """Return the size and the time of the last change of a file."""
    state = os.stat(path)
    return state.st_size, state.st_mtime_ns


def hash_file(path: str) -> str:
    """Return the SHA-256 of a file; raise ValueError if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            parts = iter(lambda: file.read(2**20), b"")
            for part in log_progress(parts, f"{path}: computing the key in the cache", "MB"):
                digest.update(part)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    return digest.hexdigest()
