"""Signals stop a run so that it resumes exactly; the run lock admits one process per folder."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import keras
import pytest

from attention_zoo import training
from attention_zoo.training.lock import hold_run_lock
from attention_zoo.training.stopping import Stopped, stop_requests
from tests.training.small import RESUME_OVERRIDES, assert_same_run, newest, write_recipe


@pytest.fixture(autouse=True)
def _enable_sigint() -> Iterator[None]:
    """Enable SIGINT, which background processes of a shell ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class SendSignal(keras.callbacks.Callback):
    """Send this process a signal at the n-th call of a hook."""

    def __init__(self, hook: str, call: int, number: int) -> None:
        super().__init__()
        self.left, self.number = call, number
        setattr(self, hook, self._count)

    def _count(self, *arguments: Any, **keywords: Any) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


class ReplaceException(SendSignal):
    """Replace the exception of the signal, as TensorFlow does while it traces a search."""

    def _count(self, *arguments: Any, **keywords: Any) -> None:
        try:
            super()._count(*arguments, **keywords)
        except Stopped:
            raise SystemError("bad argument to internal function") from None


MOMENTS = {
    "between two steps": ("on_train_batch_begin", 6, 6),
    "after the step before an evaluation": ("on_train_batch_end", 20, 20),
    "in an evaluation": ("on_test_batch_end", 2, 20),
    "in an evaluation, as another exception": ("on_test_batch_end", 3, 20, ReplaceException),
    "in the last evaluation": ("on_test_batch_begin", 4, 40),
    "before the first step": ("on_train_batch_begin", 1, 1),
}


@pytest.mark.full
@pytest.mark.parametrize("moment", MOMENTS)
def test_run_stopped_by_a_signal_resumes_exactly(
    moment: str, uninterrupted_run: Path, tmp_path: Path
) -> None:
    hook, call, step, *kind = MOMENTS[moment]
    path, folder = write_recipe(tmp_path), tmp_path / "run"
    number = signal.SIGTERM if call % 2 else signal.SIGINT
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    callback = (*kind, SendSignal)[0](hook, call, number)
    with pytest.raises(Stopped, match="run the same command to resume") as caught:
        training.fit(path, [f"run={folder}", *RESUME_OVERRIDES], [callback])
    assert caught.value.number == number
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert newest(folder).name == f"step-{step:08d}"
    training.fit(path, [f"run={folder}", *RESUME_OVERRIDES])
    assert_same_run(uninterrupted_run, folder)


@pytest.mark.full
def test_signal_while_metrics_are_computed(tmp_path: Path) -> None:
    """Decoding for a metric is part of an evaluation."""
    overrides = [f"run={tmp_path / 'run'}", "training.monitor=bleu", "training.monitor_size=3"]
    overrides += ["training.steps=2", "training.evaluate_every=2"]
    path = write_recipe(tmp_path)

    class Late(keras.callbacks.Callback):
        def on_test_end(self, logs: Any = None) -> None:
            alarm = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
            alarm.start()

    with pytest.raises(Stopped):
        training.fit(path, overrides, [Late()])
    assert not (tmp_path / "run" / "log.jsonl").exists()
    assert training.fit(path, overrides).step == 2
    assert len((tmp_path / "run" / "log.jsonl").read_text().splitlines()) == 1


def test_other_exceptions_are_unchanged() -> None:
    with stop_requests() as request:
        request.at_once = True
        with pytest.raises(SystemError), request.kept():  # no signal came
            raise SystemError
        request.at_once = False
        os.kill(os.getpid(), signal.SIGINT)  # would stop the run after the step that fails
        with pytest.raises(SystemError), request.kept():
            raise SystemError


def test_second_signal_interrupts_at_once() -> None:
    with stop_requests() as request:
        os.kill(os.getpid(), signal.SIGINT)
        assert request.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt) as caught:
            os.kill(os.getpid(), signal.SIGINT)
    assert not isinstance(caught.value, Stopped)


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as under nohup
    try:
        with stop_requests() as request:
            os.kill(os.getpid(), signal.SIGINT)
            assert request.number is None
            os.kill(os.getpid(), signal.SIGTERM)
            assert request.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_do_not_handle_signals() -> None:
    seen = []

    def work() -> None:
        with stop_requests() as request:
            seen.append((request.number, signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


HOLD_LOCK = """
import sys
from pathlib import Path
from attention_zoo.training.lock import hold_run_lock
with hold_run_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.full
def test_folder_in_use_raises(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-c", HOLD_LOCK, str(folder)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        message = (
            rf"run: is being trained by process {other.pid} on .*; wait for it, stop it, or use"
        )
        with pytest.raises(ValueError, match=message):
            training.fit(write_recipe(tmp_path), [f"run={folder}"])
        other.kill()
    with hold_run_lock(folder):  # the lock of a killed process is free
        (folder / "recipe.yaml").touch()
    assert folder.is_dir()


def test_failed_start_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold_run_lock(tmp_path / "runs" / "mine"):
        raise KeyError
    (tmp_path / "own").mkdir()
    with pytest.raises(KeyError), hold_run_lock(tmp_path / "own"):
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_concurrent_failing_starts_never_share_the_lock(tmp_path: Path) -> None:
    """Each start that fails removes the lock while others acquire it."""
    folder, holders, overlaps, acquired = tmp_path / "runs" / "run", [], [], []

    def start() -> None:
        for _ in range(60):
            with suppress(ValueError), hold_run_lock(folder):
                holders.append(1)
                acquired.append(1)
                overlaps.append(len(holders) > 1 or not (folder / "lock").exists())
                holders.pop()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(acquired) > 10
    assert not any(overlaps)


def test_lock_removed_while_it_is_acquired_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real = tmp_path / "run", fcntl.flock

    def remove_folder_after_lock(file: Any, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        real(file, how)
        shutil.rmtree(folder)

    monkeypatch.setattr(fcntl, "flock", remove_folder_after_lock)
    with hold_run_lock(folder):
        assert (folder / "lock").read_text().startswith(f"process {os.getpid()} ")
        with pytest.raises(ValueError, match="is being trained by process"), hold_run_lock(folder):
            pass


def test_file_system_without_locks_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is only a file would outlive a killed process."""

    def unsupported(file: Any, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with (
        pytest.raises(OSError, match=r"the file system has no locks; use a run=.*run/lock'$"),
        hold_run_lock(tmp_path / "run"),
    ):
        pass


def test_run_folder_that_is_a_file_raises(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(FileExistsError, match="run"), hold_run_lock(tmp_path / "run"):
        pass
