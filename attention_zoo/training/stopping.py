"""Stop requests: SIGINT, SIGTERM and SIGHUP end a run where it can be resumed exactly."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none
SIGNALS = (signal.SIGINT, signal.SIGTERM, *([] if HANGUP is None else [HANGUP]))


class Stopped(KeyboardInterrupt):
    """Exception raised after a signal; the same recipe and folder resume the run.

    Args:
        number: number of the signal.
    """

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name}; run the same command to resume")
        self.number = number


class StopRequest:
    """Request to stop, set by a signal.

    Attributes:
        number: number of the received signal; None before.
        at_once: whether the run may stop immediately without loss, as during evaluation.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.at_once = False

    def raise_if_requested(self) -> None:
        """Raise `Stopped` if a signal was received."""
        if self.number is not None:
            raise Stopped(self.number)

    @contextmanager
    def reraise(self) -> Iterator[None]:
        """Raise `Stopped` again if C code turned it into another exception.

        While TensorFlow traces, an exception of a signal handler may appear as a `SystemError` or
        a `ValueError`.
        """
        try:
            yield
        except Exception:
            if self.at_once:
                self.raise_if_requested()
            raise


@contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """Turn a signal inside this context into a request; a second signal has its usual effect.

    A second SIGHUP is ignored: for one closed terminal, shell and kernel send one each, and some
    service managers send one after SIGTERM. Outside of the main thread, which alone receives
    signals, there is never a request.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    # Leave alone what Python did not install (None), and what is ignored (`nohup`).
    before = {n: h for n, h in handlers.items() if h not in (None, signal.SIG_IGN)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        request.number = number
        restore()
        if HANGUP in before:
            signal.signal(HANGUP, signal.SIG_IGN)
        if request.at_once:
            request.raise_if_requested()

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        restore()
