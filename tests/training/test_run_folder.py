"""What a run folder keeps when writing fails, and how damage is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from attention_zoo import training
from attention_zoo.training.run_folder import (
    RunState,
    claim,
    open_run,
    read_state,
    read_variables,
    recover,
    replace_folder,
    write_state,
    write_variables,
)
from tests.training.small import copy_of_small_run, write_recipe


def put(text: str, fail: bool = False) -> Callable[[Path], None]:
    """A writer of one file that may break half-way."""

    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "a").write_text(text)
        if fail:
            raise OSError(28, "No space left on device")

    return write


def test_a_failed_write_keeps_the_old_folder(tmp_path: Path) -> None:
    folder = tmp_path / "last"
    replace_folder(folder, put("old"))
    with pytest.raises(OSError, match="No space"):
        replace_folder(folder, put("new", fail=True))
    assert (folder / "a").read_text() == "old"
    replace_folder(folder, put("newer"))
    assert (folder / "a").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


@pytest.mark.parametrize("there", [True, False])
def test_recover_keeps_the_newest_whole_folder(there: bool, tmp_path: Path) -> None:
    for name in ("last.old", "last.new", *(["last"] if there else [])):
        put(name)(tmp_path / name)
    recover(tmp_path / "last")
    assert [path.name for path in tmp_path.iterdir()] == ["last"]
    assert (tmp_path / "last" / "a").read_text() == ("last" if there else "last.old")


def test_state_round_trip_and_damage(tmp_path: Path) -> None:
    state = RunState(step=3, best=0.5, best_step=2, waited=1, seconds=9.5)
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    for text in ("", '{"stepp": 3}'):
        (tmp_path / "training.json").write_text(text)
        with pytest.raises(ValueError, match=r"training\.json: damaged .* start a new run"):
            read_state(tmp_path)


def test_variables_round_trip_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "training.npz"
    saved = [keras.Variable(np.arange(4.0)), keras.Variable(7, dtype="int64")]
    write_variables(path, {"optimizer": saved})
    fresh = [keras.Variable(np.zeros(4)), keras.Variable(0, dtype="int64")]
    read_variables(path, {"optimizer": fresh})
    np.testing.assert_array_equal(fresh[0].numpy(), np.arange(4.0))
    assert int(fresh[1].numpy()) == 7
    with pytest.raises(ValueError, match="does not hold"):
        read_variables(path, {"optimizer": [keras.Variable(np.zeros(5))]})
    with pytest.raises(ValueError, match="does not hold"):
        read_variables(path, {"seeds": fresh})
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"training\.npz: damaged"):
        read_variables(path, {"optimizer": fresh})


def test_the_log_is_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    run = copy_of_small_run(tmp_path)
    log = run / "log.jsonl"
    first, second = log.read_text().splitlines(keepends=True)
    recipe = training.read_recipe(write_recipe(tmp_path))
    log.write_text(first + second + '{"step": 50}\n{"st')
    claim(run, recipe, RunState(step=40))
    assert log.read_text() == first + second
    claim(run, recipe, RunState(step=20))
    assert log.read_text() == first


def test_a_damaged_state_is_told_before_anything_is_written(tmp_path: Path) -> None:
    run = copy_of_small_run(tmp_path)
    (run / "checkpoints" / "last" / "training.json").write_text("{")
    with pytest.raises(ValueError, match=r"training\.json: damaged"):
        open_run(run, training.read_recipe(write_recipe(tmp_path)))
