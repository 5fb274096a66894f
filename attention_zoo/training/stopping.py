"""Being told to stop: SIGINT (Ctrl-C) and SIGTERM end a run where it can go on exactly."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal ended the run; the same recipe and folder go on.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}; the same command goes on")
        self.number = number


class StopRequest:
    """What a signal asks for.

    Attributes:
        number: of the signal that came, None before.
        at_once: nothing would be lost if it came now, as while a model is evaluated.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.at_once = False

    def heed(self) -> None:
        """Raises `Stopped` if a signal came."""
        if self.number is not None:
            raise Stopped(self.number)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Raises `Stopped` where C code made another exception of the one that a signal raised.

        TensorFlow does while it traces: what a signal ends there may come out as a `SystemError` or
        a `ValueError`.
        """
        try:
            yield
        except Exception:
            if self.at_once:
                self.heed()
            raise


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Signals inside become a request; a second one acts as it did before.

    In a thread other than the main one, which gets no signals, nothing ever comes.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in [*before.items()]:
        if handler in (None, signal.SIG_IGN):  # not Python's, or ignored as `nohup` has it
            del before[number]

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        request.number = number
        restore()
        if request.at_once:
            request.heed()

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        restore()
