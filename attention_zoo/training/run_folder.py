"""A run's folder: who may write into it, and how its checkpoints are replaced.

recipe.yaml                  the whole recipe
checkpoints/step-00000300    a task folder, and what training needs to go on
log.jsonl                    one line an evaluation
lock                         held while it is trained
tensorboard/                 the same for TensorBoard
results.json                 written by `evaluate`
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from attention_zoo.checkpoints import STATE, CheckpointFolder
from attention_zoo.files import replace_file
from attention_zoo.training.lock import LOCK
from attention_zoo.training.recipe import Recipe, difference, read_recipe, recipe_text

RECIPE, LOG, VARIABLES = "recipe.yaml", "log.jsonl", "training.npz"


@dataclass
class RunState:
    """How far a run has come.

    Args:
        step: updates done.
        best: the monitored value of the best checkpoint, None before the first evaluation.
        best_step: its step.
        waited: evaluations since.
        seconds: time spent in training steps.
        finished: nothing is left to do.
        pending: the training metrics of an interval whose evaluation was not finished, or None.
        loss: the losses of this interval, summed.
        count: how many they are: tokens, or examples.
        skipped: updates that were not made because loss or gradient were not finite.
    """

    step: int = 0
    best: float | None = None
    best_step: int = 0
    waited: int = 0
    seconds: float = 0.0
    finished: bool = False
    pending: dict[str, float] | None = None
    loss: float = 0.0
    count: float = 0.0
    skipped: int = 0


def open_run(folder: Path, recipe: Recipe) -> RunState:
    """How far the run of this recipe in this folder has come; nothing is written.

    Raises:
        ValueError: the folder holds something else, or the run of another recipe.
    """
    there = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    if not {*there} - {LOCK, f"{RECIPE}.new"} and (folder.is_dir() or not folder.exists()):
        return RunState()
    if not (folder / RECIPE).is_file():
        raise ValueError(f"{folder}: is there and holds no run; give another run=FOLDER")
    changed = difference(read_recipe(folder / RECIPE), recipe)
    if changed:
        raise ValueError(
            f"{folder}: holds the run of another recipe: {changed};"
            " give another run=FOLDER, or the same recipe to continue"
        )
    newest = CheckpointFolder(folder / "checkpoints").newest()
    return read_state(newest) if newest else RunState()


def claim(folder: Path, recipe: Recipe, state: RunState) -> None:
    """Make the folder this run's own, cut back to where its last checkpoint stands."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / RECIPE).exists():
        replace_file(folder / RECIPE, recipe_text(recipe))
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    CheckpointFolder(folder / "checkpoints").cut_back(state.step)
    logged = state.step if state.pending is None else state.step - 1
    if (folder / LOG).exists():
        cut_log(folder / LOG, logged)


def cut_log(path: Path, step: int) -> None:
    """Take the lines after a step out of a log, and one that was not written to its end."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    try:
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: damaged ({error}); take the damaged line out") from None
    if kept != lines:
        replace_file(path, "".join(kept))


def write_state(folder: Path, state: RunState) -> None:
    """Put the run's state beside a checkpoint's task."""
    text = json.dumps(asdict(state), indent=2) + "\n"
    (folder / STATE).write_text(text, encoding="utf-8")


def read_state(folder: Path) -> RunState:
    """What `write_state` wrote; ValueError when it is damaged."""
    path = folder / STATE
    try:
        return RunState(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: damaged ({error}); start a new run") from None


def write_variables(path: Path, groups: Mapping[str, Sequence[Any]]) -> None:
    """Save variables by group and order in one `.npz`."""
    arrays = {
        f"{group}.{number}": keras.ops.convert_to_numpy(variable.value)
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }
    np.savez(path, **arrays)


def read_variables(path: Path, groups: Mapping[str, Sequence[Any]]) -> None:
    """Assign what `write_variables` saved.

    Raises:
        ValueError: the file is damaged or holds other variables.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: damaged ({error}); start a new run") from None
    for group, variables in groups.items():
        for number, variable in enumerate(variables):
            array = arrays.get(f"{group}.{number}")
            if array is None or array.shape != tuple(variable.shape):
                raise ValueError(
                    f"{path}: does not hold {variable.path} {tuple(variable.shape)};"
                    " it was written by another version, start a new run"
                )
            variable.assign(array)
