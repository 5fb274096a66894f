"""Checkpoints are written atomically, and damage is detected."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.checkpoints.folder import CheckpointFolder


def make_writer(step: int, best: int | None = None) -> Callable[[Path], None]:
    """Return a function that writes the checkpoint of a step."""

    def write(folder: Path) -> None:
        (folder / "model").mkdir()
        (folder / "model" / "weights").write_bytes(random.Random(step).randbytes(500))
        (folder / "empty").write_bytes(b"")
        state = {"step": step, "best_step": step if best is None else best}
        (folder / "training.json").write_text(json.dumps(state))

    return write


def save_checkpoints(folder: Path, *steps: int) -> CheckpointFolder:
    store = CheckpointFolder(folder / "checkpoints")
    for step in steps:
        store.save(step, make_writer(step))
    return store


def read_files(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_empty_folder(tmp_path: Path) -> None:
    store = CheckpointFolder(tmp_path / "none")
    assert store.list_steps() == []
    assert store.find_newest() is store.find_best() is None
    store.keep([])
    store.delete_after(0)
    assert not store.folder.exists()


def test_newest_and_best(tmp_path: Path) -> None:
    store = save_checkpoints(tmp_path, 5, 10)
    store.save(100_000_000, make_writer(100_000_000, best=5))
    assert store.list_steps() == [100_000_000, 10, 5]
    assert store.find_newest() == store.get_path(100_000_000)
    assert store.find_best() == store.get_path(5)
    store.keep([10, 5])
    assert store.list_steps() == [10, 5]
    assert store.find_best() == store.get_path(10)
    store.delete_after(7)
    assert [path.name for path in store.folder.iterdir()] == ["step-00000005"]


@pytest.mark.parametrize("kind", ["flip", "cut"])
def test_damage_is_detected_and_the_previous_checkpoint_used(kind: str, tmp_path: Path) -> None:
    """200 flipped bits and 50 truncated files at random positions."""
    store = save_checkpoints(tmp_path, 1, 2)
    list_intact = read_files(store.get_path(2))
    rng = random.Random(0)
    for _ in range({"flip": 200, "cut": 50}[kind]):
        name = rng.choice([name for name, data in list_intact.items() if data])
        data = bytearray(list_intact[name])
        if kind == "flip":
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            data = data[: rng.randrange(len(data))]
        path = store.get_path(2) / name
        path.write_bytes(data)
        with pytest.warns(
            UserWarning, match=r"step-00000002: .*; skipped, other checkpoints are used"
        ):
            assert store.find_newest() == store.get_path(1)
        path.write_bytes(list_intact[name])
        assert store.find_newest() == store.get_path(2)


def test_all_damaged_raises(tmp_path: Path) -> None:
    store = save_checkpoints(tmp_path, 1)
    (store.get_path(1) / "empty").unlink()
    with pytest.raises(ValueError, match="empty is missing, and no other checkpoint is intact"):
        store.find_newest()


def test_damaged_checkpoint_is_not_replaced_by_its_backup(tmp_path: Path) -> None:
    store = save_checkpoints(tmp_path, 20, 40)
    shutil.copytree(store.get_path(40), store.folder / ".step-00000040.old")
    store.delete_after(20)
    assert [path.name for path in store.folder.iterdir()] == ["step-00000020"]


def test_newest_replaces_damaged_best(tmp_path: Path) -> None:
    store = save_checkpoints(tmp_path, 1)
    store.save(2, make_writer(2, best=1))
    (store.get_path(1) / "empty").write_text("?")
    with pytest.warns(UserWarning, match=r"step-00000001: empty is damaged; using the newest"):
        assert store.find_best() == store.get_path(2)


class Killed(BaseException):
    """Simulates a killed process, after which nothing is cleaned up."""


CALLS = ("mkdir", "rename", "fsync", "unlink", "rmdir")


def run_until_killed(call: int, monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> bool:
    """Run `work` until its system call number `call`; return whether it got so far."""
    num_calls = 0

    def counting(real: Any) -> Any:
        def call_counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal num_calls
            num_calls += 1
            if num_calls > call:  # all later calls fail too, also those that clean up
                raise Killed
            return real(*args, **kwargs)

        return call_counted

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, counting(getattr(os, name)))
        patch.setattr(shutil, "rmtree", counting(shutil.rmtree))
        try:
            work()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("again", [False, True], ids=["a new step", "the same step again"])
def test_kill_at_any_point_of_a_save(
    again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, killed = 0, True
    while killed:
        folder = tmp_path / str(call)
        store = save_checkpoints(folder, 1, 2)

        def save(store: CheckpointFolder = store) -> None:
            store.save(2 if again else 3, make_writer(7))
            store.keep([2, 3])

        killed = run_until_killed(call, monkeypatch, save)
        newest = store.find_newest()
        assert newest is not None
        weights = read_files(newest)["model/weights"]
        old, new = (random.Random(step).randbytes(500) for step in (2, 7))
        assert weights in (old, new)
        if not killed:
            assert weights == new
        store.delete_after(int(newest.name.strip(".old").rpartition("-")[2]))
        (newest,) = (store.find_newest(),)
        assert newest is not None
        assert read_files(newest)["model/weights"] == weights
        assert all(path.name.startswith("step-") for path in store.folder.iterdir())
        call += 1
    assert call > 10


@pytest.mark.parametrize("after", [0, 1, 2])
def test_failed_write_leaves_old_checkpoints(after: int, tmp_path: Path) -> None:
    store = save_checkpoints(tmp_path, 1)
    files_before = read_files(tmp_path)

    def write_and_fail(folder: Path) -> None:
        for number in range(after):
            (folder / str(number)).write_text("some of it")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        store.save(2, write_and_fail)
    assert read_files(tmp_path) == files_before
    assert store.find_newest() == store.get_path(1)


def test_retries_end_while_a_trainer_changes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, steps = save_checkpoints(tmp_path, 1, 2), iter(range(3, 10_000))
    for step in (1, 2):
        (store.get_path(step) / "manifest.json").unlink()
    monkeypatch.setattr(store, "list_steps", lambda: [next(steps), 2, 1])
    with pytest.warns(match="skipped"), pytest.raises(ValueError, match="no other checkpoint"):
        store.list_intact(retries=3)
    assert next(steps) < 30


def test_list_intact(tmp_path: Path) -> None:
    store = save_checkpoints(tmp_path, 1, 2, 3, 4)
    assert store.list_intact() == [store.get_path(step) for step in (4, 3, 2, 1)]
    (store.get_path(3) / "manifest.json").unlink()
    with pytest.warns(match="step-00000003: manifest.json is missing; skipped"):
        assert store.list_intact(2) == [store.get_path(4), store.get_path(2)]
    assert store.list_intact(1) == [store.get_path(4)], "older checkpoints must not be read"
    assert CheckpointFolder(tmp_path / "nowhere").list_intact() == []
