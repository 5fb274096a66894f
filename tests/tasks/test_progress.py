"""Progress of predictions: shown after some seconds on a terminal, hidden in training."""

from __future__ import annotations

import io
import logging
from types import SimpleNamespace

import pytest

from attention_zoo.tasks import progress
from attention_zoo.tasks.progress import Progress, hide_progress, report_predicted
from tests.tasks.test_masked_language_modeling import MASK, make_task


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
    clock: list[float], terminal: Terminal
) -> None:
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
    clock: list[float], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "attention_zoo.predict")
    with Progress(10):
        for _ in range(3):
            clock[0] += 6
            report_predicted(2)
    assert caplog.messages == [
        "predicted 2 of 10 inputs, 24 s left",
        "predicted 6 of 10 inputs, 12 s left",
    ]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("stream", [False, True])
def test_predictions_are_counted(
    stream: bool, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    monkeypatch.setattr(progress, "FIRST_DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    task, texts = make_task(), [f"a {MASK}", f"{MASK} dog", MASK]
    if stream:
        list(task.predict_iter(texts, chunk_size=2))
    else:
        task.predict(texts)
    assert "predicted 3 of 3 inputs, 0 s left" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
