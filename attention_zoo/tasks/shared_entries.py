"""Entries of the cache that several processes write together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_zoo.data.progress import log_progress
from attention_zoo.data_cache import CorpusCache

Entry = tuple[Mapping[str, Any], Callable[[Path], object]]
"""Key of an entry, and the function that writes its files to a folder."""


def create_entries(
    cache: CorpusCache,
    kind: str,
    entries: Sequence[Entry],
    is_obsolete: Callable[[], bool] = lambda: False,
) -> list[Path]:
    """Write several entries together with other processes, and return their folders.

    A process writes the entries that no other process is writing, then waits for the others.

    Args:
        cache: the cache of the corpus.
        kind: see `CacheEntry`.
        entries: the entries, which are independent of each other.
        is_obsolete: function that returns whether the entries are no longer needed; the result is
            then incomplete.
    """
    for key, write in log_progress(entries, f"{cache.origin}: preparing {kind}", "parts"):
        if not (is_obsolete() or cache.has_entry(kind, key)):
            cache.get_or_create(kind, key, write, wait=False)
    folders: list[Path] = []
    for key, write in entries:
        if not is_obsolete():
            folders.append(cache.get_or_create(kind, key, write))
    return folders
