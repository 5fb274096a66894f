"""A checkpoint is there whole or not at all, and damage of any kind is seen."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.checkpoints import CheckpointFolder


def writer(step: int, best: int | None = None) -> Callable[[Path], None]:
    """What a run would put into the checkpoint of a step."""

    def write(folder: Path) -> None:
        (folder / "model").mkdir()
        (folder / "model" / "weights").write_bytes(random.Random(step).randbytes(500))
        (folder / "empty").write_bytes(b"")
        state = {"step": step, "best_step": step if best is None else best}
        (folder / "training.json").write_text(json.dumps(state))

    return write


def saved(folder: Path, *steps: int) -> CheckpointFolder:
    store = CheckpointFolder(folder / "checkpoints")
    for step in steps:
        store.save(step, writer(step))
    return store


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_nothing_there(tmp_path: Path) -> None:
    store = CheckpointFolder(tmp_path / "none")
    assert store.steps() == []
    assert store.newest() is store.best() is None
    store.keep([])
    store.cut_back(0)
    assert not store.folder.exists()


def test_newest_and_best(tmp_path: Path) -> None:
    store = saved(tmp_path, 5, 10)
    store.save(100_000_000, writer(100_000_000, best=5))
    assert store.steps() == [100_000_000, 10, 5]
    assert store.newest() == store.at(100_000_000)
    assert store.best() == store.at(5)
    store.keep([10, 5])
    assert store.steps() == [10, 5]
    assert store.best() == store.at(10)
    store.cut_back(7)
    assert [path.name for path in store.folder.iterdir()] == ["step-00000005"]


@pytest.mark.parametrize("kind", ["flip", "cut"])
def test_every_damage_is_seen_and_the_one_before_is_used(kind: str, tmp_path: Path) -> None:
    """200 flipped bits, 50 cut files, anywhere in the checkpoint."""
    store = saved(tmp_path, 1, 2)
    whole = content(store.at(2))
    rng = random.Random(0)
    for _ in range({"flip": 200, "cut": 50}[kind]):
        name = rng.choice([name for name, data in whole.items() if data])
        data = bytearray(whole[name])
        if kind == "flip":
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            data = data[: rng.randrange(len(data))]
        path = store.at(2) / name
        path.write_bytes(data)
        with pytest.warns(UserWarning, match=r"step-00000002: .*; using the previous"):
            assert store.newest() == store.at(1)
        path.write_bytes(whole[name])
        assert store.newest() == store.at(2)


def test_nothing_is_used_when_all_are_damaged(tmp_path: Path) -> None:
    store = saved(tmp_path, 1)
    (store.at(1) / "empty").unlink()
    with pytest.raises(ValueError, match="empty is missing, and no other checkpoint is intact"):
        store.newest()


def test_a_damaged_one_does_not_bring_an_older_self_back(tmp_path: Path) -> None:
    store = saved(tmp_path, 20, 40)
    shutil.copytree(store.at(40), store.folder / ".step-00000040.old")
    store.cut_back(20)
    assert [path.name for path in store.folder.iterdir()] == ["step-00000020"]


def test_the_newest_stands_in_for_a_damaged_best(tmp_path: Path) -> None:
    store = saved(tmp_path, 1)
    store.save(2, writer(2, best=1))
    (store.at(1) / "empty").write_text("?")
    with pytest.warns(UserWarning, match=r"step-00000001: empty is damaged; using the newest"):
        assert store.best() == store.at(2)


class Killed(BaseException):
    """Stands for the end of the process: nothing may clean up after it."""


CALLS = ("mkdir", "rename", "fsync", "unlink", "rmdir")


def killed_at(call: int, monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> bool:
    """Runs `work` until its call number `call` into the system; whether it came so far."""
    made = 0

    def counting(real: Any) -> Any:
        def one(*given: Any, **named: Any) -> Any:
            nonlocal made
            made += 1
            if made > call:  # once dead, always dead: cleaning up does nothing either
                raise Killed
            return real(*given, **named)

        return one

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
def test_killed_at_every_point_of_a_save(
    again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, killed = 0, True
    while killed:
        folder = tmp_path / str(call)
        store = saved(folder, 1, 2)

        def save(store: CheckpointFolder = store) -> None:
            store.save(2 if again else 3, writer(7))
            store.keep([2, 3])

        killed = killed_at(call, monkeypatch, save)
        newest = store.newest()
        assert newest is not None
        found = content(newest)["model/weights"]
        old, new = (random.Random(step).randbytes(500) for step in (2, 7))
        assert found in (old, new)
        if not killed:
            assert found == new
        store.cut_back(int(newest.name.strip(".old").rpartition("-")[2]))
        (newest,) = (store.newest(),)
        assert newest is not None
        assert content(newest)["model/weights"] == found
        assert all(path.name.startswith("step-") for path in store.folder.iterdir())
        call += 1
    assert call > 10


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_write_that_fails_leaves_what_there_was(after: int, tmp_path: Path) -> None:
    store = saved(tmp_path, 1)
    before = content(tmp_path)

    def fails(folder: Path) -> None:
        for number in range(after):
            (folder / str(number)).write_text("some of it")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        store.save(2, fails)
    assert content(tmp_path) == before
    assert store.newest() == store.at(1)


def test_whole_ones_are_listed(tmp_path: Path) -> None:
    store = saved(tmp_path, 1, 2, 3, 4)
    assert store.whole() == [store.at(step) for step in (4, 3, 2, 1)]
    (store.at(3) / "manifest.json").unlink()
    with pytest.warns(match="step-00000003: manifest.json is missing; skipped"):
        assert store.whole(2) == [store.at(4), store.at(2)]
    assert store.whole(1) == [store.at(4)], "nothing older is looked at"
    assert CheckpointFolder(tmp_path / "nowhere").whole() == []
