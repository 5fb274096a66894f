"""Run folders after failed writes, and error messages for damaged files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import training
from attention_zoo.checkpoints import folder as checkpoints
from attention_zoo.files import find_damage, write_manifest
from attention_zoo.training.run_folder import (
    RunState,
    convert_to_arrays,
    may_be_finished,
    open_run,
    prepare_run_folder,
    read_state,
    read_variables,
    trim_log,
    write_arrays,
    write_state,
)
from tests.training.small import copy_of_small_run, write_recipe


def test_state_round_trip_and_damage(tmp_path: Path) -> None:
    state = RunState(step=3, best=0.5, best_step=2, waited=1, seconds=9.5)
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    for text, problem in (
        ("", r"damaged .* start a new run"),
        ("[]", r"damaged \(expected a JSON object, got list\); start a new run"),
        ('{"stepp": 3}', r"outdated or edited \(.*'stepp'\); train again, or use the version"),
    ):
        (tmp_path / "training.json").write_text(text)
        with pytest.raises(ValueError, match=rf"training\.json: {problem}"):
            read_state(tmp_path)
    (tmp_path / "training.json").write_text('{"format_version": 2}')
    with pytest.raises(ValueError, match=r"training\.json has format_version 2, .* upgrade"):
        read_state(tmp_path)


def test_variables_round_trip_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "training.npz"
    saved = [keras.Variable(np.arange(4.0)), keras.Variable(7, dtype="int64")]
    entry = write_arrays(path, convert_to_arrays({"optimizer": saved}))
    write_manifest(tmp_path, [path.name], {path.name: entry})
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
def test_log_is_trimmed_to_the_checkpoint(tmp_path: Path) -> None:
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


def test_damage_warns_and_the_previous_checkpoint_is_resumed(tmp_path: Path) -> None:
    run = copy_of_small_run(tmp_path)
    recipe = training.read_recipe(write_recipe(tmp_path))
    last, before = (run / "checkpoints" / f"step-{step:08d}" for step in (40, 20))
    (last / "training.json").write_text("{")
    with pytest.warns(
        UserWarning, match=r"training\.json is damaged; skipped, other checkpoints are used"
    ):
        assert open_run(run, recipe).step == 20
    (before / "training.npz").write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="step-00000040"),
        pytest.raises(ValueError, match=r"training\.npz is damaged, and no other checkpoint"),
    ):
        open_run(run, recipe)


def test_run_killed_at_its_start_can_be_started_again(tmp_path: Path) -> None:
    """Between its files, or within one: the same command goes on."""
    recipe = training.read_recipe(write_recipe(tmp_path))
    for number, files in enumerate(
        ([], ["lock"], ["recipe.yaml.new"], ["lock", "recipe.yaml.new"])
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in files:
            (folder / name).write_text("cut o")
        assert open_run(folder, recipe) == RunState()
        prepare_run_folder(folder, recipe, RunState(), {})
        assert open_run(folder, recipe) == RunState()


def test_damaged_log_raises(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for line in ("\0\0", "{}", "[]"):
        path.write_text(f'{{"step": 1}}\n{line}\n')
        with pytest.raises(ValueError, match=r"log\.jsonl: damaged .*; remove the damaged line"):
            trim_log(path, 5)
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    trim_log(path, 1)
    assert path.read_text() == '{"step": 1}\n'


@pytest.mark.full
def test_start_reads_a_checkpoint_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, path = copy_of_small_run(tmp_path), write_recipe(tmp_path)
    read, real = [], checkpoints.find_damage

    def counted(folder: Path) -> Any:
        read.append(folder.name)
        return real(folder)

    monkeypatch.setattr(checkpoints, "find_damage", counted)
    training.fit(path, [f"run={run}"])
    assert read == ["step-00000040"]
    training.fit(path, [f"run={run}", "training.steps=41"], allow=["training.steps"])
    assert read == ["step-00000040"] * 2


def test_finished_run_is_detected_from_its_state_and_damage_is_not_finished(
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
