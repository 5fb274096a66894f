"""Training on a full disk, in a read-only folder, and stopped by signals and kills.

Each time: one line and an exit code, no traceback, all checkpoints intact, and the same command
resumes to the run of an undisturbed training.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attention_zoo.checkpoints.folder import CheckpointFolder
from attention_zoo.files import find_damage
from attention_zoo.training.faults import explain_io_errors
from tests.training import processes
from tests.training.small import RESUMED, assert_same_run, copy_of_small_run, newest, write_recipe

PROGRAM = "import sys; from attention_zoo.cli import main; sys.exit(main())"


def start(*words: object, before: str = "") -> subprocess.Popen[str]:
    """Start the command in a process of its own, after some lines of Python."""
    return processes.start(f"{before}\n{PROGRAM}", map(str, words), PYTHONUNBUFFERED="1")


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code, and the command's own lines on standard error."""
    _, errors = process.communicate(timeout=240)
    assert "Traceback" not in errors
    messages = [line for line in errors.splitlines() if line.startswith("attention-zoo: ")]
    return process.returncode, "\n".join(messages)


def assert_resumes(whole: Path, run: Path, path: Path, *words: str) -> None:
    """Run the command again and compare the runs."""
    assert finish(start("train", path, f"run={run}", *words)) == (0, "")
    assert_same_run(whole, run)


def list_intact_checkpoints(run: Path) -> list[int]:
    """Return the steps of the checkpoints, none of which may be damaged."""
    store = CheckpointFolder(run / "checkpoints")
    assert [find_damage(store.get_path(step)) for step in store.list_steps()] == [None] * len(
        store.list_steps()
    )
    return sorted(store.list_steps())


@contextmanager
def mount_small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a disk of a size; skip the test without the right to mount."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting a disk requires root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, but: int) -> Path:
    """Write a file that leaves `but` bytes free."""
    file = disk / "fill"
    file.write_bytes(b"\0" * (shutil.disk_usage(disk).free - but))
    return file


@pytest.mark.slow
def test_full_disk(whole: Path, tmp_path: Path) -> None:
    """Nothing, the log alone, or a part of a checkpoint can be written."""
    path = write_recipe(tmp_path)
    with mount_small_disk(tmp_path / "disk", "8m") as disk:
        run = disk / "run"
        stopped = start("train", path, f"run={run}", *RESUMED, before=KILL_IN_THE_THIRD_SAVE)
        assert finish(stopped)[0] == -signal.SIGKILL
        before = list_intact_checkpoints(run)
        for room in (0, 30_000, 200_000):
            file = fill(disk, room)
            code, message = finish(start("train", path, f"run={run}", *RESUMED))
            file.unlink()
            assert code == 2
            assert "No space left on device; earlier checkpoints are intact" in message
            assert "\n" not in message
            assert list_intact_checkpoints(run) == before
            assert not [p for p in (run / "checkpoints").iterdir() if p.name.startswith(".")]
        assert_resumes(whole, run, path, *RESUMED)


LIMIT = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
"""


@pytest.mark.slow
def test_file_size_limit(tmp_path: Path) -> None:
    run, path = tmp_path / "run", write_recipe(tmp_path)
    code, message = finish(start("train", path, f"run={run}", "training.steps=2", before=LIMIT))
    assert (code, "run: File too large; earlier checkp" in message) == (2, True)
    assert list_intact_checkpoints(run) == []
    assert finish(start("train", path, f"run={run}", "training.steps=2")) == (0, "")
    assert list_intact_checkpoints(run) == [2]


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only, for root too; skip the test where that is not possible."""
    folder.chmod(0o555)
    root = os.geteuid() == 0
    mark = ["chattr", "+i", str(folder)]
    if root and (not shutil.which("chattr") or subprocess.run(mark, check=False).returncode):
        pytest.skip("the file system has no immutable folders")
    try:
        yield
    finally:
        if root:
            subprocess.run(["chattr", "-i", str(folder)], check=True)
        folder.chmod(0o755)


@pytest.mark.slow
def test_read_only_folder(whole: Path, tmp_path: Path) -> None:
    run, path = copy_of_small_run(tmp_path), write_recipe(tmp_path)
    (run / "lock").unlink()
    with read_only(run):
        assert finish(start("train", path, f"run={run}"))[0] == 0  # nothing to do
        more = ("training.steps=41", "--allow", "training.steps")
        code, message = finish(start("train", path, f"run={run}", *more))
        assert code == 2
        assert message.startswith(f"attention-zoo: error: {run / 'lock'}: ")
        assert "\n" not in message
    with read_only(run / "tensorboard"):
        code, message = finish(start("train", path, f"run={run}", *more))
        assert code == 2
        denied = "(Permission denied|Operation not permitted)"  # an immutable folder, for root
        folder = re.escape(f"{run / 'tensorboard'}")
        assert re.search(f"{folder}: {denied}; earlier checkpoints are intact", message)
    assert list_intact_checkpoints(run) == [20, 40]
    assert finish(start("train", path, f"run={run}", *more)) == (0, "")
    assert newest(run).name == "step-00000041"


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, marks=pytest.mark.soak),
    ],
)
def test_signal(number: signal.Signals, whole: Path, tmp_path: Path) -> None:
    run, path = tmp_path / "run", write_recipe(tmp_path)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
    process = start("train", path, f"run={run}", *RESUMED)
    while not list((run / "checkpoints").glob("step-*")):
        time.sleep(0.01)
        assert process.poll() is None
    sent = time.monotonic()
    process.send_signal(number)
    code, message = finish(process)
    assert time.monotonic() - sent < 10
    assert code == 128 + number
    assert message == f"attention-zoo: stopped by {number.name}; run the same command to resume"
    assert max(list_intact_checkpoints(run)) < 40
    assert_resumes(whole, run, path, *RESUMED)


KILL = """
import os, signal
import attention_zoo.{module} as module
real, left = module.{name}, [{call}]
def kill_at_last_call(*given, **named):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given, **named)
module.{name} = kill_at_last_call
"""
KILL_IN_THE_THIRD_SAVE = KILL.format(module="checkpoints.folder", name="write_manifest", call=3)
KILL_IN_AN_EVALUATION = KILL.format(module="training.callbacks", name="Clock.on_test_begin", call=2)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [KILL_IN_THE_THIRD_SAVE, KILL_IN_AN_EVALUATION])
def test_kill_during_a_save_and_during_an_evaluation(
    kill: str, whole: Path, tmp_path: Path
) -> None:
    run, path = tmp_path / "run", write_recipe(tmp_path)
    code, _ = finish(start("train", path, f"run={run}", *RESUMED, before=kill))
    assert code == -signal.SIGKILL
    unfinished = [p.name for p in (run / "checkpoints").iterdir() if p.name.startswith(".")]
    assert unfinished == ([".step-00000020.new"] if kill is KILL_IN_THE_THIRD_SAVE else [])
    assert list_intact_checkpoints(run)[-1] == (18 if kill is KILL_IN_THE_THIRD_SAVE else 36)
    assert_resumes(whole, run, path, *RESUMED)


def test_io_errors_name_a_path_and_the_fix() -> None:
    full = pytest.raises(OSError, match=r"No space .*; earlier checkpoints are")
    with full as caught, explain_io_errors(Path("runs/a")):
        raise OSError(28, "No space left on device")
    assert (caught.value.filename, caught.value.errno) == ("runs/a", 28)
    with pytest.raises(PermissionError) as denied, explain_io_errors(Path("runs/a")):
        raise PermissionError(13, "Permission denied", "runs/a/lock")
    assert denied.value.filename == "runs/a/lock"
    with (
        pytest.raises(OSError, match=r"^the disk has a headache$"),
        explain_io_errors(Path("runs/a")),
    ):
        raise OSError("the disk has a headache")
    with pytest.raises(RuntimeError, match="ours"), explain_io_errors(Path("runs/a")):
        raise RuntimeError("ours")
