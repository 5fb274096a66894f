"""Run folders: state, log, damage and interrupted preparation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import checkpoints, training
from attention_zoo.files import find_damage, seal
from attention_zoo.training.run_folder import (
    RunState,
    as_arrays,
    cut_log,
    may_be_finished,
    open_run,
    prepare_run_folder,
    read_state,
    read_variables,
    write_arrays,
    write_state,
)
from tests.training.small import copy_of_small_run, write_recipe


def test_state_round_trip_and_damage(tmp_path: Path) -> None:
    state = RunState(step=3, best=0.5, best_step=2, waited=1, seconds=9.5)
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    for text in ("", '{"stepp": 3}'):
        (tmp_path / "training.json").write_text(text)
        with pytest.raises(ValueError, match=r"training\.json: damaged .* start a new run"):
            read_state(tmp_path)
    (tmp_path / "training.json").write_text('{"format_version": 2}')
    with pytest.raises(ValueError, match=r"training\.json has format_version 2, .* upgrade"):
        read_state(tmp_path)


def test_variables_round_trip_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "training.npz"
    saved = [keras.Variable(np.arange(4.0)), keras.Variable(7, dtype="int64")]
    entry = write_arrays(path, as_arrays({"optimizer": saved}))
    seal(tmp_path, [path.name], {path.name: entry})
    assert find_damage(tmp_path) is None
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


@pytest.mark.full
def test_log_is_truncated_to_the_checkpoint(tmp_path: Path) -> None:
    run = copy_of_small_run(tmp_path)
    log = run / "log.jsonl"
    first, second = log.read_text().splitlines(keepends=True)
    recipe = training.read_recipe(write_recipe(tmp_path))
    log.write_text(first + second + '{"step": 50}\n{"st')
    prepare_run_folder(run, recipe, RunState(step=40), {})
    assert log.read_text() == first + second
    prepare_run_folder(run, recipe, RunState(step=40, pending={"loss": 1.0}), {})
    assert log.read_text() == first
    log.write_text(first + second)
    prepare_run_folder(run, recipe, RunState(step=20), {})
    assert log.read_text() == first
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000020"]


def test_damaged_checkpoint_warns_and_the_previous_one_is_used(tmp_path: Path) -> None:
    run = copy_of_small_run(tmp_path)
    recipe = training.read_recipe(write_recipe(tmp_path))
    last, before = (run / "checkpoints" / f"step-{step:08d}" for step in (40, 20))
    (last / "training.json").write_text("{")
    with pytest.warns(UserWarning, match=r"training\.json is damaged; using the previous"):
        assert open_run(run, recipe).step == 20
    (before / "training.npz").write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="step-00000040"),
        pytest.raises(ValueError, match=r"training\.npz is damaged, and no other checkpoint"),
    ):
        open_run(run, recipe)


def test_kill_while_the_folder_is_prepared_leaves_a_usable_folder(tmp_path: Path) -> None:
    """Between two files or within one: the same command resumes."""
    recipe = training.read_recipe(write_recipe(tmp_path))
    for number, files in enumerate(
        ([], ["lock"], ["recipe.yaml.new"], ["lock", "recipe.yaml.new"])
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in files:
            (folder / name).write_text("truncat")
        assert open_run(folder, recipe) == RunState()
        prepare_run_folder(folder, recipe, RunState(), {})
        assert open_run(folder, recipe) == RunState()


def test_damaged_log_raises(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for line in ("\0\0", "{}", "[]"):
        path.write_text(f'{{"step": 1}}\n{line}\n')
        with pytest.raises(ValueError, match=r"log\.jsonl: damaged .*; remove the damaged line"):
            cut_log(path, 5)
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    cut_log(path, 1)
    assert path.read_text() == '{"step": 1}\n'


@pytest.mark.full
def test_checkpoint_is_verified_once_per_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, path = copy_of_small_run(tmp_path), write_recipe(tmp_path)
    read, real = [], checkpoints.find_damage

    def count_calls(folder: Path) -> Any:
        read.append(folder.name)
        return real(folder)

    monkeypatch.setattr(checkpoints, "find_damage", count_calls)
    training.fit(path, [f"run={run}"])
    assert read == ["step-00000040"]
    training.fit(path, [f"run={run}", "training.steps=41"], allow=["training.steps"])
    assert read == ["step-00000040"] * 2


def test_may_be_finished_reads_the_state_only(
    tmp_path: Path,
) -> None:
    run = copy_of_small_run(tmp_path)
    recipe = training.read_recipe(write_recipe(tmp_path))
    assert not may_be_finished(tmp_path / "none", recipe)
    assert may_be_finished(run, recipe)
    last = run / "checkpoints" / "step-00000040"
    (last / "training.npz").unlink()
    assert may_be_finished(run, recipe)
    (last / "training.json").write_text("{")
    assert not may_be_finished(run, recipe)
    (last / "training.json").unlink()
    assert not may_be_finished(run, recipe)
