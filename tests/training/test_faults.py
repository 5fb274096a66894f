"""The command line program with full disks, read-only folders, signals and kills.

Each time: a one-line error and an exit code, no traceback, saved checkpoints are intact, and the
same command later resumes exactly.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attention_zoo.checkpoints import CheckpointFolder
from attention_zoo.files import find_damage
from attention_zoo.training.faults import explain_io_errors
from tests.training import processes
from tests.training.small import (
    RESUME_OVERRIDES,
    assert_same_run,
    copy_of_small_run,
    newest,
    write_recipe,
)

PROGRAM = "import sys; from attention_zoo.cli import main; sys.exit(main())"


def start(*arguments: object, before: str = "") -> subprocess.Popen[str]:
    """Start the program in a subprocess, after the Python code `before`."""
    return processes.start(f"{before}\n{PROGRAM}", map(str, arguments), PYTHONUNBUFFERED="1")


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code and the program's own lines on standard error."""
    _, output = process.communicate(timeout=240)
    assert "Traceback" not in output
    errors = [line for line in output.splitlines() if line.startswith("attention-zoo: ")]
    return process.returncode, "\n".join(errors)


def assert_resumes(uninterrupted_run: Path, run: Path, path: Path, *overrides: str) -> None:
    """Assert that the same command resumes the run exactly."""
    assert finish(start("train", path, f"run={run}", *overrides)) == (0, "")
    assert_same_run(uninterrupted_run, run)


def intact_checkpoints(run: Path) -> list[int]:
    """Return the steps of the checkpoints, after checking that all are intact."""
    store = CheckpointFolder(run / "checkpoints")
    assert [find_damage(store.get_path(step)) for step in store.steps()] == [None] * len(
        store.steps()
    )
    return sorted(store.steps())


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of this size; skip the test where that is not permitted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting a file system is not permitted")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, free: int) -> Path:
    """Write a file that leaves `free` bytes of free space."""
    file = disk / "fill"
    file.write_bytes(b"\0" * (shutil.disk_usage(disk).free - free))
    return file


@pytest.mark.slow
def test_full_disk(uninterrupted_run: Path, tmp_path: Path) -> None:
    """Nothing, only the log, or only a part of a checkpoint can be written."""
    path = write_recipe(tmp_path)
    with small_disk(tmp_path / "disk", "8m") as disk:
        run = disk / "run"
        stopped = start(
            "train", path, f"run={run}", *RESUME_OVERRIDES, before=KILL_IN_THE_THIRD_SAVE
        )
        assert finish(stopped)[0] == -signal.SIGKILL
        before = intact_checkpoints(run)
        for free in (0, 30_000, 200_000):
            file = fill(disk, free)
            code, errors = finish(start("train", path, f"run={run}", *RESUME_OVERRIDES))
            file.unlink()
            assert code == 2
            assert "No space left on device; earlier checkpoints are intact" in errors
            assert "\n" not in errors
            assert intact_checkpoints(run) == before
            assert not [p for p in (run / "checkpoints").iterdir() if p.name.startswith(".")]
        assert_resumes(uninterrupted_run, run, path, *RESUME_OVERRIDES)


LIMIT = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
"""


@pytest.mark.slow
def test_file_size_limit(tmp_path: Path) -> None:
    run, path = tmp_path / "run", write_recipe(tmp_path)
    code, errors = finish(start("train", path, f"run={run}", "training.steps=2", before=LIMIT))
    assert (code, "run: File too large; earlier checkp" in errors) == (2, True)
    assert intact_checkpoints(run) == []
    assert finish(start("train", path, f"run={run}", "training.steps=2")) == (0, "")
    assert intact_checkpoints(run) == [2]


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only, for root too; skip the test where that is not possible."""
    folder.chmod(0o555)
    root = os.geteuid() == 0
    mark = ["chattr", "+i", str(folder)]
    if root and (not shutil.which("chattr") or subprocess.run(mark, check=False).returncode):
        pytest.skip("root can write to every folder of this file system")
    try:
        yield
    finally:
        if root:
            subprocess.run(["chattr", "-i", str(folder)], check=True)
        folder.chmod(0o755)


@pytest.mark.slow
def test_read_only_folder(uninterrupted_run: Path, tmp_path: Path) -> None:
    run, path = copy_of_small_run(tmp_path), write_recipe(tmp_path)
    (run / "lock").unlink()
    with read_only(run):
        assert finish(start("train", path, f"run={run}"))[0] == 0  # nothing to do
        more = ("training.steps=41", "--allow", "training.steps")
        code, errors = finish(start("train", path, f"run={run}", *more))
        assert code == 2
        assert errors.startswith(f"attention-zoo: error: {run / 'lock'}: ")
        assert "\n" not in errors
    with read_only(run / "tensorboard"):
        code, errors = finish(start("train", path, f"run={run}", *more))
        assert code == 2
        assert f"{run / 'tensorboard'}: Permission denied; earlier checkpoints are intact" in errors
    assert intact_checkpoints(run) == [20, 40]
    assert finish(start("train", path, f"run={run}", *more)) == (0, "")
    assert newest(run).name == "step-00000041"


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, marks=pytest.mark.soak),
    ],
)
def test_signal(number: signal.Signals, uninterrupted_run: Path, tmp_path: Path) -> None:
    run, path = tmp_path / "run", write_recipe(tmp_path)
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # background processes of a shell ignore SIGINT
    process = start("train", path, f"run={run}", *RESUME_OVERRIDES)
    while not list((run / "checkpoints").glob("step-*")):
        time.sleep(0.01)
        assert process.poll() is None
    sent = time.monotonic()
    process.send_signal(number)
    code, errors = finish(process)
    assert time.monotonic() - sent < 10
    assert code == 128 + number
    assert errors == f"attention-zoo: stopped by {number.name}; run the same command to resume"
    assert max(intact_checkpoints(run)) < 40
    assert_resumes(uninterrupted_run, run, path, *RESUME_OVERRIDES)


KILL = """
import os, signal
import attention_zoo.{module} as module
real, left = module.{name}, [{call}]
def kill_at_call(*arguments, **keywords):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **keywords)
module.{name} = kill_at_call
"""
KILL_IN_THE_THIRD_SAVE = KILL.format(module="checkpoints", name="seal", call=3)
KILL_IN_AN_EVALUATION = KILL.format(module="training.callbacks", name="Clock.on_test_begin", call=2)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [KILL_IN_THE_THIRD_SAVE, KILL_IN_AN_EVALUATION])
def test_kill_within_a_save_or_an_evaluation(
    kill: str, uninterrupted_run: Path, tmp_path: Path
) -> None:
    run, path = tmp_path / "run", write_recipe(tmp_path)
    code, _ = finish(start("train", path, f"run={run}", *RESUME_OVERRIDES, before=kill))
    assert code == -signal.SIGKILL
    unfinished = [p.name for p in (run / "checkpoints").iterdir() if p.name.startswith(".")]
    assert unfinished == ([".step-00000020.new"] if kill is KILL_IN_THE_THIRD_SAVE else [])
    assert intact_checkpoints(run)[-1] == (18 if kill is KILL_IN_THE_THIRD_SAVE else 36)
    assert_resumes(uninterrupted_run, run, path, *RESUME_OVERRIDES)


def test_io_errors_name_the_file_and_the_fix() -> None:
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
