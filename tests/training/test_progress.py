"""Progress lines: a bar that fits the terminal, lines in log files, long phases."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest

from attention_zoo.training import progress as module
from attention_zoo.training.callbacks import Clock
from attention_zoo.training.progress import Progress, format_loss, format_seconds
from attention_zoo.training.run_folder import RunState
from attention_zoo.training.stopping import StopRequest


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def train(steps: int, batches: int, stream: io.StringIO, state: RunState | None = None) -> Progress:
    """Call the hooks of the first batches of a run."""
    clock = Clock(state or RunState(), StopRequest())
    progress = Progress(steps, clock, stream)
    clock.on_epoch_begin(0)
    for batch in range(batches):
        clock.state.count += 100
        clock.on_train_batch_begin(batch)
        clock.on_train_batch_end(batch)
        progress.on_train_batch_end(batch, {"loss": 1.0})
    return progress


def test_bar_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = {}
    for stream in (io.StringIO(), Terminal()):
        progress = train(4, 2, stream)
        progress.on_epoch_end(0, {"loss": 1.0, "val_loss": 2.0, "val_bleu": 30.0})
        shown[stream.isatty()] = stream.getvalue()
    assert shown[False].startswith("step 2/4  loss 1.0000  validation loss 2.0000  bleu 30.0000")
    assert shown[False].count("\n") == 1
    assert "tokens/s" in shown[False]
    assert "left" in shown[False]
    assert "\rstep 1/4  [======" in shown[True]


def test_auxiliary_loss_is_shown_after_the_losses() -> None:
    stream = io.StringIO()
    logs = {"loss": 1.0, "auxiliary_loss": 0.25, "val_loss": 2.0, "val_bleu": 30.0}
    train(4, 2, stream).on_epoch_end(0, logs)
    expected = "step 2/4  loss 1.0000  validation loss 2.0000  auxiliary loss 0.2500  bleu 30.0000"
    assert stream.getvalue().startswith(expected)


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100, 250])
@pytest.mark.parametrize("steps", [4, 100_000, 10**12])
def test_progress_fits_the_terminal(
    columns: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream, state = Terminal(), RunState(step=2, seconds=1.4)
    progress = train(steps, 1, stream, state)
    progress.on_test_begin()
    progress.on_test_batch_end(0)
    progress._last_write_time = 0.0
    progress.show()
    bar, evaluating = stream.getvalue().split("\r")[1:]
    assert len(bar) == len(evaluating) == columns - 1
    assert bar.startswith(f"step 3/{steps}"[: columns - 1])
    if columns >= 80 and steps == 100_000:
        assert "loss 1.0000" in bar
        assert bar.rstrip().endswith("h 57 min left")
        assert "[" in bar
        assert "evaluating, batch 1" in evaluating
    progress.on_epoch_end(0, {"loss": 1.0, "val_loss": 2.0})
    line = stream.getvalue().split("\r")[-1]
    assert line.endswith("\n")
    assert "validation loss 2.0000" in line
    assert len(line) <= columns or "left" not in line


def test_remaining_time_in_its_two_largest_units() -> None:
    texts = {0: "0 s", 59.6: "1 min 0 s", 70_860: "19 h 41 min", 3600: "1 h 0 min"}
    texts |= {90_000: "1 d 1 h", 125: "2 min 5 s"}
    assert {seconds: format_seconds(seconds) for seconds in texts} == texts


def test_diverged_losses_stay_short() -> None:
    assert [format_loss(x) for x in (1.5, 10_050.0, 1.5e14, float("nan"))] == [
        *("1.5000", "10050.0000", "1.5e+14", "nan")
    ]


def test_log_file_gets_a_line_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    stream = io.StringIO()
    progress = train(1000, 3, stream)
    assert stream.getvalue() == ""
    for second in range(1, 131):
        now[0] = 1000.0 + second
        progress.on_train_batch_end(second, {"loss": 2.0})
    lines = stream.getvalue().splitlines()
    assert [line.partition("  tokens")[0][:23] for line in lines] == ["step 3/1000  loss 2.000"] * 2


def test_long_phases_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing calls the callback while a step is compiled or a metric computed."""
    monkeypatch.setattr(module, "LOG_SECONDS", 0.01)
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.01)
    stream = io.StringIO()
    progress = Progress(9, Clock(RunState(), StopRequest()), stream)
    with progress.refresh_periodically():
        deadline = time.monotonic() + 20
        while not stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert stream.getvalue().startswith("step 0/9  compiling the training step\n")
    length = len(stream.getvalue())
    time.sleep(0.05)
    assert len(stream.getvalue()) == length


@pytest.mark.parametrize("error", [BrokenPipeError, OSError])
def test_closed_output_does_not_stop_training(error: Any) -> None:
    class Closed(Terminal):
        def write(self, text: str) -> int:
            raise error(5, "Input/output error")

    train(4, 2, Closed()).on_epoch_end(0, {"loss": 1.0, "val_loss": 2.0})


def test_divergence_is_shown_instead_of_best() -> None:
    state = RunState(first_loss=4.5)
    nan, inf = float("nan"), float("inf")
    assert not state.has_diverged(9.0, 4.0)
    for losses in ((10_050.0, 4.0), (nan, 4.0), (9.0, nan), (9.0, inf)):
        assert state.has_diverged(*losses)
    assert not RunState().has_diverged(10_050.0, 4.0)
    assert RunState().has_diverged(nan, 4.0)
    stream = io.StringIO()
    state.diverged, state.best_step = True, 2
    train(4, 2, stream, state).on_epoch_end(0, {"loss": 10_050.0, "val_loss": 2.0})
    assert stream.getvalue().endswith("  diverged from 4.5000 at the first step\n")
    train(4, 2, stream, state).on_epoch_end(0, {"loss": 2.0, "val_loss": nan})
    assert stream.getvalue().endswith("  diverged\n")
    assert "best" not in stream.getvalue()
