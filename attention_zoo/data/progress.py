"""Progress of reading and encoding data, as log lines that `show_progress` prints."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from time import monotonic
from typing import TextIO, TypeVar

T = TypeVar("T")

LOGGER = logging.getLogger("attention_zoo.data")
FIRST_DELAY, INTERVAL = 2.0, 10.0
"""Seconds from the start of a loop to its first line, and between two lines of all loops."""

_last_line = -INTERVAL


def log_progress(items: Iterable[T], what: str, unit: str, size: int = 1) -> Iterator[T]:
    """Yield the items, and log how many were processed once per `INTERVAL`.

    Args:
        items: any items.
        what: file or operation, for the log.
        unit: name of what is counted, in the plural.
        size: number of units of an item.
    """
    global _last_line
    start = monotonic()
    for count, item in enumerate(items):
        now = monotonic()
        if now >= max(start + FIRST_DELAY, _last_line + INTERVAL):
            LOGGER.info("%s: %s %s", what, f"{count * size:,}", unit)
            _last_line = now
        yield item


def log_batches(items: Iterable[T], size: int, what: str, unit: str) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`, and log as `log_progress` does."""
    iterator = iter(items)
    batches = iter(lambda: [*islice(iterator, size)], [])
    return log_progress(batches, what, unit, size)


@contextmanager
def show_progress(stream: TextIO) -> Iterator[None]:
    """Print the log lines to a stream, such as standard output."""
    handler, level = logging.StreamHandler(stream), LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
