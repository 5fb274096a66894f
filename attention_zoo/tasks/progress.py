"""Progress of predictions that take long."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from typing import Any, Self

LOGGER = logging.getLogger("attention_zoo.predict")
FIRST_DELAY, INTERVAL, LOG_INTERVAL = 5.0, 0.5, 10.0
"""Seconds of prediction before progress is shown, and between two updates of a terminal or log."""

_current: ContextVar[Progress | None] = ContextVar("progress", default=None)


class Progress:
    """Progress of predictions: a line on standard error if it is a terminal, else log lines.

    In a `with` block, predictions count toward this progress. A block inside another one counts
    toward the outer progress.

    Args:
        total: number of inputs; None if it is unknown.
        is_hidden: whether nothing is shown.
    """

    def __init__(self, total: int | None = None, is_hidden: bool = False) -> None:
        self.total, self.is_hidden = total, is_hidden
        self.count, self._seconds = 0, 0.0
        self._start = self._shown = 0.0
        self._has_line = False
        self._token: Any = None

    def __enter__(self) -> Self:
        self._token = _current.set(_current.get() or self)
        self._start = monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
        self._seconds += monotonic() - self._start
        if self._has_line:
            _write("\r\x1b[K")
            self._has_line = False

    def advance(self, count: int) -> None:
        """Add a number of predicted inputs; show the progress if it is time to."""
        self.count += count
        now = monotonic()
        seconds = self._seconds + now - self._start
        if self.is_hidden or seconds < FIRST_DELAY:
            return
        is_terminal = sys.stderr.isatty()
        if now < self._shown + (INTERVAL if is_terminal else LOG_INTERVAL):
            return
        self._shown = now
        if is_terminal:
            self._has_line = True
            _write(f"\r{self._describe(seconds)}\x1b[K")
        else:
            LOGGER.info(self._describe(seconds))

    def _describe(self, seconds: float) -> str:
        rate = self.count / seconds
        if self.total is None:
            return f"predicted {self.count:,} inputs, {rate:,.1f} per second"
        left = (self.total - self.count) / rate
        return f"predicted {self.count:,} of {self.total:,} inputs, {left:,.0f} s left"


def _write(text: str) -> None:
    """Write to standard error; a closed terminal does not stop the predictions."""
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def report_predicted(count: int) -> None:
    """Add predicted inputs to the current progress."""
    progress = _current.get()
    if progress is not None:
        progress.advance(count)


@contextmanager
def hide_progress() -> Iterator[None]:
    """Show no progress of predictions inside the block."""
    token = _current.set(Progress(is_hidden=True))
    try:
        yield
    finally:
        _current.reset(token)
