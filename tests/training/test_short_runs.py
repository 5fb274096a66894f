"""The training loop on a two-layer model, small enough for the fast tier."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import keras
import pytest
import tensorflow as tf

from attention_zoo import tasks, training
from attention_zoo.tasks import TASKS
from attention_zoo.training.callbacks import Checkpoints, Clock
from attention_zoo.training.recipe import Recipe, TrainingOptions
from attention_zoo.training.run_folder import RunState
from attention_zoo.training.stopping import StopRequest
from tests.tiers import FULL
from tests.training.custom_task import Regression, recipe
from tests.training.small import assert_same_run, newest, records
from tests.training.test_fitting import StopAfter


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    """Register the model for this module; run eagerly in the fast tier."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS._factories, "regression", Regression)
        tf.config.run_functions_eagerly(not FULL)
        yield
        tf.config.run_functions_eagerly(False)


def make_recipe(folder: Path, **training: Any) -> Recipe:
    """Return a recipe of four updates, with evaluations every two and checkpoints every one."""
    options = {"steps": 4, "evaluate_every": 2, "checkpoint_every": 1, "schedule": "cosine"}
    return recipe(folder, {"size": 12}, **{**options, "model": {"dropout": 0.2}, **training})


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, _registered: None) -> Path:
    return training.fit(make_recipe(tmp_path_factory.mktemp("uninterrupted") / "run")).folder


def list_checkpoints(folder: Path) -> list[int]:
    """Return the steps of the checkpoints in a run folder."""
    return [int(path.name.removeprefix("step-")) for path in sorted(folder.glob("checkpoints/*"))]


def test_run_learns_and_logs_its_evaluations(tmp_path: Path) -> None:
    result = training.fit(recipe(tmp_path / "run", steps=8, learning_rate=0.1))
    first, second = records(result.folder)
    assert (first["step"], second["step"]) == (4, 8)
    assert second["val_loss"] < first["val_loss"]
    assert second["loss"] < first["loss"]
    assert (result.step, result.best_step) == (8, 8)
    assert list_checkpoints(result.folder) == [4, 8]


@pytest.mark.full
@pytest.mark.parametrize(
    ("every", "batches", "saved"), [pytest.param(None, 3, 2, id="evaluation"), (3, 4, 3)]
)
def test_resume_is_exact(
    every: int | None, batches: int, saved: int, uninterrupted: Path, tmp_path: Path
) -> None:
    """Weights, optimizer, random numbers, log and state are equal bit by bit."""
    folder = tmp_path / "run"
    recipe = make_recipe(folder, checkpoint_every=every)
    with pytest.raises(KeyboardInterrupt):
        training.fit(recipe, callbacks=[StopAfter(batches)])
    assert list_checkpoints(folder)[-1] == saved
    assert training.fit(recipe).step == 4
    assert_same_run(uninterrupted, folder)


@pytest.mark.parametrize(
    ("keep", "most"),
    [
        pytest.param(1, 3, marks=pytest.mark.full),
        (2, 3),
        pytest.param(4, 5, marks=pytest.mark.full),
    ],
)
def test_the_disk_holds_few_checkpoints_while_one_is_written(
    keep: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest one, the best one (step 1) and, below, the one that is being written."""
    held: list[int] = []

    def save(task: Any, folder: Path) -> None:
        held.append(len(list(folder.parent.iterdir())))
        task_save(task, folder)

    task_save = Regression.save
    monkeypatch.setattr(Regression, "save", save)
    steps = keep + 2
    options: dict[str, Any] = {"steps": steps, "evaluate_every": 1, "checkpoint_every": None}
    options |= {"learning_rate": 1e-30, "keep_checkpoints": keep}
    result = training.fit(make_recipe(tmp_path / "run", **options))
    assert result.best_step == 1
    assert max(held) == most
    assert list_checkpoints(result.folder) == [1, *range(3, steps + 1)]


def test_saving_a_step_again_deletes_no_other_checkpoint(tmp_path: Path) -> None:
    """As after a signal in an evaluation: the checkpoint of its step is replaced."""

    class EmptyCheckpoints(Checkpoints):
        def _write(self, folder: Path) -> dict[str, Any]:
            return {}

    options, state = TrainingOptions(keep_checkpoints=3), RunState(best=1.0, best_step=1)
    clock, parts = Clock(state, StopRequest()), (cast(Any, None), cast(Any, None))
    saving = EmptyCheckpoints(*parts, tmp_path, options, clock)
    for step in (1, 2, 3, 4, 4):
        state.step = step
        saving.save()
    assert list_checkpoints(tmp_path) == [1, 2, 3, 4]


def test_a_damaged_checkpoint_is_replaced(uninterrupted: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(uninterrupted, tmp_path / "run"))
    (newest(folder) / "training.npz").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"step-00000004: training\.npz is damaged"):
        training.fit(make_recipe(folder))
    assert_same_run(uninterrupted, folder)


@pytest.mark.full
def test_early_stopping_survives_an_interruption(tmp_path: Path) -> None:
    """Updates below the precision of float32 never improve on the first evaluation."""
    options = {"steps": 9, "evaluate_every": 1, "checkpoint_every": None, "keep_checkpoints": 1}
    options |= {"learning_rate": 1e-30, "patience": 2}
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        training.fit(make_recipe(folder, **options), callbacks=[StopAfter(3)])
    assert list_checkpoints(folder) == [1, 2]
    result = training.fit(make_recipe(folder, **options))
    assert (result.step, result.best_step) == (3, 1)
    assert [line["step"] for line in records(folder)] == [1, 2, 3]
    assert list_checkpoints(folder) == [1, 3]
    assert tasks.find_task_folder(folder).name == "step-00000001"


@pytest.mark.full
def test_a_run_that_a_callback_stopped_resumes(tmp_path: Path) -> None:
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.stop_training = True

    assert training.fit(make_recipe(tmp_path / "run"), callbacks=[Stop()]).step == 2
    assert training.fit(make_recipe(tmp_path / "run")).step == 4
    assert [line["step"] for line in records(tmp_path / "run")] == [2, 4]


def test_an_infinite_loss_names_the_step_and_the_examples(tmp_path: Path) -> None:
    recipe = make_recipe(tmp_path / "run", learning_rate=1e25, optimizer="sgd", clip_norm=None)
    with pytest.raises(ValueError, match=r"^step 2: the loss is inf on training examples \d+, "):
        training.fit(recipe)
