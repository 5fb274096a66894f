"""Signals end a run where it goes on exactly, and one folder has one trainer."""

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
from attention_zoo.files import check_can_create
from attention_zoo.training.lock import hold_run_lock
from attention_zoo.training.stopping import Stopped, catch_stop_signals
from tests.training.small import RESUMED, assert_same_run, newest, write_recipe


@pytest.fixture(autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    """A shell starts what it runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Signal(keras.callbacks.Callback):
    """Sends this process a signal at the n-th call of one of its hooks."""

    def __init__(self, hook: str, call: int, number: int) -> None:
        super().__init__()
        self.left, self.number = call, number
        setattr(self, hook, self._count)

    def _count(self, *given: Any, **named: Any) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


class Swallowed(Signal):
    """Replaces the exception of the signal, as TensorFlow does while it traces a search."""

    def _count(self, *given: Any, **named: Any) -> None:
        try:
            super()._count(*given, **named)
        except Stopped:
            raise SystemError("bad argument to internal function") from None


MOMENTS = {
    "between two steps": ("on_train_batch_begin", 6, 6),
    "after the step before an evaluation": ("on_train_batch_end", 20, 20),
    "in an evaluation": ("on_test_batch_end", 2, 20),
    "in an evaluation, as another exception": ("on_test_batch_end", 3, 20, Swallowed),
    "in the last evaluation": ("on_test_batch_begin", 4, 40),
    "before the first step": ("on_train_batch_begin", 1, 1),
}


@pytest.mark.full
@pytest.mark.parametrize("moment", MOMENTS)
def test_signal_loses_nothing(moment: str, whole: Path, tmp_path: Path) -> None:
    hook, call, step, *kind = MOMENTS[moment]
    path, folder = write_recipe(tmp_path), tmp_path / "run"
    number = signal.SIGTERM if call % 2 else signal.SIGINT
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    callback = (*kind, Signal)[0](hook, call, number)
    with pytest.raises(Stopped, match="run the same command to resume") as caught:
        training.fit(path, [f"run={folder}", *RESUMED], [callback])
    assert caught.value.number == number
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert newest(folder).name == f"step-{step:08d}"
    training.fit(path, [f"run={folder}", *RESUMED])
    assert_same_run(whole, folder)


@pytest.mark.full
def test_signal_during_evaluation(tmp_path: Path) -> None:
    """Searching for a metric is part of an evaluation."""
    page = [f"run={tmp_path / 'run'}", "training.monitor=bleu", "training.monitor_size=3"]
    page += ["training.steps=2", "training.evaluate_every=2"]
    path = write_recipe(tmp_path)

    class Late(keras.callbacks.Callback):
        def on_test_end(self, logs: Any = None) -> None:
            alarm = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
            alarm.start()

    with pytest.raises(Stopped):
        training.fit(path, page, [Late()])
    assert not (tmp_path / "run" / "log.jsonl").exists()
    assert training.fit(path, page).step == 2
    assert len((tmp_path / "run" / "log.jsonl").read_text().splitlines()) == 1


def test_other_errors_are_unchanged() -> None:
    with catch_stop_signals() as request:
        request.at_once = True
        with pytest.raises(SystemError), request.reraise():  # no signal came
            raise SystemError
        request.at_once = False
        os.kill(os.getpid(), signal.SIGINT)  # to be heeded after the step that fails
        with pytest.raises(SystemError), request.reraise():
            raise SystemError


def test_second_signal_has_its_usual_effect() -> None:
    with catch_stop_signals() as request:
        os.kill(os.getpid(), signal.SIGINT)
        assert request.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt) as caught:
            os.kill(os.getpid(), signal.SIGINT)
    assert not isinstance(caught.value, Stopped)


def test_hangup_is_a_request_and_its_repetitions_are_ignored() -> None:
    """A closed terminal sends SIGHUP twice; service managers send it after SIGTERM."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        for number in (signal.SIGHUP, signal.SIGTERM):
            with catch_stop_signals() as request:
                os.kill(os.getpid(), number)
                os.kill(os.getpid(), signal.SIGHUP)
                assert request.number == number
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as under nohup
    try:
        with catch_stop_signals() as request:
            os.kill(os.getpid(), signal.SIGINT)
            assert request.number is None
            os.kill(os.getpid(), signal.SIGTERM)
            assert request.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_get_no_signals() -> None:
    handlers = []

    def work() -> None:
        with catch_stop_signals() as request:
            handlers.append((request.number, signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [(None, before)]


HOLD = """
import sys
from pathlib import Path
from attention_zoo.files import check_can_create
from attention_zoo.training.lock import hold_run_lock
with hold_run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.full
def test_one_folder_has_one_trainer(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        message = (
            rf"run: is being trained by process {other.pid} on .*; wait for it, stop it, or use"
        )
        with pytest.raises(ValueError, match=message):
            training.fit(write_recipe(tmp_path), [f"run={folder}"])
        other.kill()
    with hold_run_lock(folder):  # that of a dead one is no lock
        (folder / "recipe.yaml").touch()
    assert folder.is_dir()


def test_folder_that_appears_during_the_check_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, stat = tmp_path / "runs" / "mine", Path.stat

    def create_after_stat(path: Path, **options: Any) -> Any:
        try:
            return stat(path, **options)
        finally:
            os.makedirs(folder, exist_ok=True)

    monkeypatch.setattr(Path, "stat", create_after_stat)
    check_can_create(folder)
    monkeypatch.undo()
    assert folder.is_dir()


def test_failed_start_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold_run_lock(tmp_path / "runs" / "mine"):
        raise KeyError
    (tmp_path / "own").mkdir()
    with pytest.raises(KeyError), hold_run_lock(tmp_path / "own"):
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_failing_starts_never_hold_one_folder_together(tmp_path: Path) -> None:
    """Each that comes to nothing removes the lock while others take it."""
    folder, inside, together, held = tmp_path / "runs" / "run", [], [], []

    def start() -> None:
        for _ in range(60):
            with suppress(ValueError), hold_run_lock(folder):
                inside.append(1)
                held.append(1)
                together.append(len(inside) > 1 or not (folder / "lock").exists())
                inside.pop()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) > 10
    assert not any(together)


def test_lock_removed_while_it_is_acquired_is_acquired_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real = tmp_path / "run", fcntl.flock

    def late(file: Any, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        real(file, how)
        shutil.rmtree(folder)

    monkeypatch.setattr(fcntl, "flock", late)
    with hold_run_lock(folder):
        assert (folder / "lock").read_text().startswith(f"process {os.getpid()} ")
        with pytest.raises(ValueError, match="is being trained by process"), hold_run_lock(folder):
            pass


def test_file_system_without_locks_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is a mere file would stay behind a killed process."""

    def unsupported(file: Any, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with (
        pytest.raises(OSError, match=r"the file system has no locks; use a run=.*run/lock'$"),
        hold_run_lock(tmp_path / "run"),
    ):
        pass


@pytest.mark.parametrize("run", ["file", "file/run", "link", "link/deep/run"])
def test_run_folder_that_cannot_be_created_raises(run: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    message = rf"is a file; .*{tmp_path}/file'$|is a link to nowhere, which .*{tmp_path}/link'$"
    with pytest.raises(OSError, match=message), hold_run_lock(tmp_path / run):
        pass


def test_run_folder_in_a_deleted_folder_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deleted").mkdir()
    monkeypatch.chdir(tmp_path / "deleted")
    (tmp_path / "deleted").rmdir()
    with (
        pytest.raises(FileNotFoundError, match=r"the current folder was deleted; .*'runs/a'$"),
        hold_run_lock(Path("runs/a")),
    ):
        pass


def test_attempts_to_lock_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the reason, a folder that disappears again and again ends in an error."""
    attempts = []

    def disappear(lock: Any, **_: Any) -> None:
        attempts.append(lock)
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "run")

    monkeypatch.setattr("filelock.FileLock.acquire", disappear)
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(FileNotFoundError), hold_run_lock(tmp_path / "run"):
        pass
    assert len(attempts) == 100
