"""The average of checkpoints: worked out by hand, of whole ones alone, written whole or not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import tasks
from attention_zoo.checkpoints.folder import CheckpointFolder
from attention_zoo.files import find_damage
from attention_zoo.training import average_checkpoints, averaging, evaluate, write_average
from attention_zoo.training.recipe import Recipe, format_recipe
from attention_zoo.training.run_folder import RunState, write_state
from tests.tasks.translators import make_untrained_task

TEXTS = ["it is five", "it is six"]
STEPS = (10, 20, 30, 40)


def noise(step: int, number: int, shape: Any) -> np.ndarray:
    return np.random.default_rng([step, number]).normal(size=tuple(shape)).astype("float32")


def save(run: Path, step: int, task: Any) -> None:
    def write(folder: Path) -> None:
        task.save(folder)
        write_state(folder, RunState(step=step, best_step=10))

    CheckpointFolder(run / "checkpoints").save(step, write)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of four checkpoints, of weights that nothing has trained."""
    task = make_untrained_task("rnnsearch_small", TEXTS, TEXTS)
    for step in STEPS:
        for number, weight in enumerate(task.model.weights):
            weight.assign(noise(step, number, weight.shape))
        save(tmp_path / "run", step, task)
    recipe = Recipe()
    recipe.data.size = recipe.data.validation_size = recipe.data.test_size = 4
    (tmp_path / "run" / "recipe.yaml").write_text(format_recipe(recipe), encoding="utf-8")
    return tmp_path / "run"


def assert_mean_of(task: Any, *steps: int) -> None:
    for number, weight in enumerate(task.model.weights):
        every = [noise(step, number, weight.shape).astype("float64") for step in steps]
        expected = (sum(every) / len(steps)).astype("float32")
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(weight), expected)


def spoil(run: Path, step: int) -> None:
    path = CheckpointFolder(run / "checkpoints").get_path(step) / "task.json"
    path.write_bytes(path.read_bytes() + b" ")


@pytest.mark.full
def test_weights_are_means(run: Path) -> None:
    assert_mean_of(average_checkpoints(run), *STEPS)
    task = average_checkpoints(run, last=2)
    assert_mean_of(task, 30, 40)
    assert [token.text for token in task.predict(TEXTS, max_length=3)]


def test_damaged_checkpoints_are_skipped(run: Path) -> None:
    spoil(run, 30)
    with pytest.warns(UserWarning, match="step-00000030: task.json is damaged; skipped"):
        assert_mean_of(average_checkpoints(run, last=2), 20, 40)
    spoil(run, 20)
    with (
        pytest.warns(match="; skipped"),
        pytest.raises(ValueError, match="expected 3 intact checkpoints to average, found 2"),
    ):
        average_checkpoints(run, last=3)
    spoil(run, 10)
    message = r"expected 2 intact checkpoints to average, found 1; .*training\.keep_checkpoints=2"
    with pytest.warns(match="; skipped"), pytest.raises(ValueError, match=message):
        average_checkpoints(run)


def test_invalid_averages_raise(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="last must be at least 2, got 1"):
        average_checkpoints(run, last=1)
    with pytest.raises(ValueError, match="nowhere: not a run folder"):
        average_checkpoints(tmp_path / "nowhere")
    save(run, 50, make_untrained_task("rnnsearch_small", [*TEXTS, "it is seven"], TEXTS))
    with pytest.raises(ValueError, match="step-00000040: weights do not fit those of the newest"):
        average_checkpoints(run, last=2)


def test_integers_are_those_of_the_newest(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter([(1.0, 7), (2.0, 5), (6.0, 3)])

    def load(path: Path) -> Any:
        value, count = next(made)
        weights = [
            keras.Variable(np.full(2, value), dtype="float16"),
            keras.Variable(count, dtype="int32"),
        ]
        return SimpleNamespace(model=SimpleNamespace(weights=weights))

    monkeypatch.setattr(averaging.tasks, "load", load)
    mean, count = average_checkpoints(run, last=3).model.weights
    assert (mean.numpy().tolist(), int(count), mean.dtype) == ([3.0, 3.0], 7, "float16")


@pytest.mark.full
def test_written_average_is_used_as_a_run(run: Path, tmp_path: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*"))
    folder = write_average(run, tmp_path / "deep" / "average", last=3)
    assert sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*")) == before
    assert find_damage(folder) is None
    assert_mean_of(tasks.load(folder), 20, 30, 40)
    figures = evaluate(folder, ["data.split=validation", "search.max_length=3"])
    assert figures["metrics"]["sentences"] == 4
    assert find_damage(folder) is None, "results.json stands beside the files of the manifest"
    with pytest.raises(ValueError, match="average: already exists; choose another"):
        write_average(run, folder)
    with pytest.raises(ValueError, match="expected 9 intact checkpoints to average, found 4"):
        write_average(run, tmp_path / "new", last=9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "run"]
