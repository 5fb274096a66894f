"""Progress of predictions: shown after some seconds on a terminal, hidden in training."""

from __future__ import annotations

import io
import logging
import sys
from types import SimpleNamespace

import pytest

from attention_zoo.tasks import progress
from attention_zoo.tasks.progress import Progress, hide_progress, report_predicted
from tests.tasks.test_predict_inputs import GOOD, MAKERS, NAMES
from tests.tasks.test_streaming import make_options


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock whose time tests set."""
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    return stream


def test_progress_is_shown_after_five_seconds_and_removed(
    clock: list[float], terminal: Terminal, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "attention_zoo.predict")
    with Progress(1000):
        clock[0] += 4.9
        report_predicted(100)
        assert terminal.getvalue() == ""
        clock[0] += 5.1
        report_predicted(100)
        shown = "\rpredicted 200 of 1,000 inputs, 40 s left\x1b[K"
        assert terminal.getvalue() == shown
        clock[0] += 0.4
        report_predicted(1)
        assert terminal.getvalue() == shown, "not more often than twice a second"
    assert terminal.getvalue() == shown + "\r\x1b[K"
    report_predicted(1)
    assert terminal.getvalue() == shown + "\r\x1b[K"
    assert not caplog.messages


def test_inner_predictions_count_toward_the_outer_progress(
    clock: list[float], terminal: Terminal
) -> None:
    outer = Progress()
    for _ in range(2):
        with outer, Progress(3) as inner:
            clock[0] += 4
            report_predicted(8)
        clock[0] += 60  # between two chunks
    assert (outer.count, inner.count) == (16, 0)
    assert terminal.getvalue() == "\rpredicted 16 inputs, 2.0 per second\x1b[K\r\x1b[K"


def test_hidden_progress(clock: list[float], terminal: Terminal) -> None:
    with hide_progress(), Progress(9):
        clock[0] += 60
        report_predicted(3)
    assert terminal.getvalue() == ""


def test_without_a_terminal_progress_is_logged(
    clock: list[float], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "attention_zoo.predict")
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with Progress(10):
        for _ in range(3):
            clock[0] += 6
            report_predicted(2)
    assert caplog.messages == [
        "predicted 2 of 10 inputs, 24 s left",
        "predicted 6 of 10 inputs, 12 s left",
    ]
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
def test_all_predictions_are_counted(name: str) -> None:
    task, inputs = MAKERS[name](), [*GOOD[name], GOOD[name][0]]
    with Progress() as counted:
        task.predict(inputs, **make_options(task))
    assert counted.count == 3
    with Progress() as counted:
        list(task.predict_iter(inputs, chunk_size=2, **make_options(task)))
    assert counted.count == 3


def test_a_closed_terminal_does_not_stop_predictions(
    clock: list[float], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(text: str) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(terminal, "write", fail)
    with Progress(9) as shown:
        clock[0] += 60
        report_predicted(3)
    assert shown.count == 3
