"""Progress of a run: a bar on a terminal, lines in log files."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, RLock, Thread
from typing import Any, TextIO

import keras

from attention_zoo.training.callbacks import Clock

Logs = dict[str, Any]

LOG_SECONDS = 60.0  # between lines that are not written to a terminal
BAR_SECONDS = 0.2  # between updates of the bar
CHECK_SECONDS = 1.0  # between checks whether a line is due, while a step takes long


class Progress(keras.callbacks.Callback):
    """One line of metrics per evaluation and, in between, the progress.

    On a terminal, the progress is a bar in the last line; elsewhere it is a line once a minute.

    Args:
        steps: total number of updates.
        clock: the source of step and throughput.
        stream: the output stream; standard output when None.
    """

    def __init__(self, steps: int, clock: Clock, stream: TextIO | None = None) -> None:
        super().__init__()
        self.steps, self.clock, self.stream = steps, clock, stream or sys.stdout
        self._is_terminal = self.stream.isatty()
        self._interval = BAR_SECONDS if self._is_terminal else LOG_SECONDS
        self._last_write_time = time.perf_counter() - (self._interval if self._is_terminal else 0.0)
        self._activity = "compiling the training step"
        self._loss: float | None = None
        self._lock = RLock()

    @contextmanager
    def refresh_periodically(self) -> Iterator[None]:
        """Show the progress also while a step, an evaluation or a compilation takes long."""
        ended = Event()

        def show_until_ended() -> None:
            while not ended.wait(CHECK_SECONDS):
                self.show()

        thread = Thread(target=show_until_ended, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._activity, self._loss = "", (logs or {})["loss"]
        self.show()

    def on_test_begin(self, logs: Logs | None = None) -> None:
        self._activity = "evaluating"

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._activity = f"evaluating, batch {batch + 1}"

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs, state = logs or {}, self.clock.state
        texts = {"loss": "loss", "val_loss": "validation loss"}
        if "auxiliary_loss" in logs:
            texts["auxiliary_loss"] = "auxiliary loss"
        texts |= {
            n: n.removeprefix("val_") for n in logs if n.startswith("val_") and n not in texts
        }
        values = [f"{text} {format_loss(logs[name])}" for name, text in texts.items()]
        mark = ["best"] if state.best_step == state.step else []
        if state.diverged:
            is_finite = math.isfinite(logs["loss"]) and math.isfinite(logs["val_loss"])
            first = f" from {format_loss(state.first_loss)} at the first step" if is_finite else ""
            mark = [f"diverged{first}"]
        self._write(self._fit([self._format_step(), *values], mark) + "\n")
        self._activity = ""

    def show(self) -> None:
        """Write the progress, unless something was written a moment ago."""
        with self._lock:
            if time.perf_counter() - self._last_write_time >= self._interval:
                bar = self._format_bar()[: self._get_width()] if self._is_terminal else ""
                self._write(bar or self._format_line() + "\n")

    def _write(self, text: str) -> None:
        with self._lock:
            if self._is_terminal:
                line = text.removesuffix("\n")
                text = f"\r{line:{self._get_width()}}{text[len(line) :]}"
            self._last_write_time = time.perf_counter()
            with suppress(OSError):  # a closed pipe or terminal must not stop training
                self.stream.write(text)
                self.stream.flush()

    def _format_line(self) -> str:
        loss = [] if self._loss is None else [f"loss {format_loss(self._loss)}"]
        activity = [self._activity] if self._activity else []
        return self._fit([self._format_step(), *activity, *loss])

    def _format_bar(self) -> str:
        """Return a line of the width of the terminal, with a bar in the remaining space."""
        step, line = self._format_step(), self._format_line()
        size = min(24, self._get_width() - len(line) - len("  []"))
        if size < 8:
            return line
        filled = size * self.clock.state.step // self.steps
        return f"{step}  [{'=' * filled}{' ' * (size - filled)}]{line[len(step) :]}"

    def _fit(self, start: list[str], end: list[str] | None = None) -> str:
        """Join the parts, with the speed between them as far as it fits on the terminal."""
        width = self._get_width() if self._is_terminal else sys.maxsize
        speed, end = self._format_speed(), end or []
        while speed and len("  ".join([*start, *speed, *end])) > width:
            speed = speed[1:]
        return "  ".join([*start, *speed, *end])

    def _get_width(self) -> int:
        return shutil.get_terminal_size().columns - 1  # some terminals wrap a full line

    def _format_step(self) -> str:
        return f"step {self.clock.state.step}/{self.steps}"

    def _format_speed(self) -> list[str]:
        """Return the throughput and the remaining time."""
        clock, state = self.clock, self.clock.state
        if not state.step:
            return []
        left = (self.steps - state.step) * state.seconds / state.step
        return [f"{clock.per_second:,.0f} {clock.unit}/s", f"{format_seconds(left)} left"]


def format_loss(value: float | None) -> str:
    """Return a loss or metric with four decimals; large ones with four digits."""
    value = math.nan if value is None else value
    return f"{value:.4g}" if abs(value) >= 1e6 else f"{value:.4f}"


def format_seconds(seconds: float) -> str:
    """Return a duration in its two largest units: "19 h 41 min"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    counts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next((number for number, (count, _) in enumerate(counts) if count), len(counts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in counts[first : first + 2])
