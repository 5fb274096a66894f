"""A run's folder: who may write into it, and how its checkpoints are replaced.

recipe.yaml                  the whole recipe
recipe.step-00000300.yaml    the one before it, if it was changed at that step; so for data.json
data.json                    how many examples each split holds, and their SHA-256
checkpoints/step-00000300    a task folder, and what training needs to go on
log.jsonl                    one line an evaluation
lock                         held while it is trained
tensorboard/                 the same for TensorBoard
results.json                 written by `evaluate`
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from attention_zoo.checkpoints import STATE, CheckpointFolder
from attention_zoo.files import Entry, HashedFile, check_format_version, replace_file
from attention_zoo.training import tensorboard
from attention_zoo.training.changes import (
    Fingerprint,
    check_allowed,
    recipe_changes,
    refuse_changes,
)
from attention_zoo.training.lock import LOCK
from attention_zoo.training.recipe import Recipe, TrainingOptions, read_recipe, recipe_text

RECIPE, DATA, LOG, VARIABLES = "recipe.yaml", "data.json", "log.jsonl", "training.npz"
FORMAT_VERSION = 1  # of training.json
UNCLAIMED = {LOCK, DATA, f"{DATA}.new", f"{RECIPE}.new"}
"""What a start may leave in a folder before the recipe makes it a run's."""


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

    def is_over(self, options: TrainingOptions) -> bool:
        """Whether these options leave nothing to do."""
        tired = options.patience is not None and self.waited >= options.patience
        return self.pending is None and (tired or self.step >= options.steps)


def holds_run(folder: Path, recipe: Recipe, allow: Sequence[str] = ()) -> bool:
    """Whether the folder holds the run of this recipe; False if nothing was begun there.

    Args:
        folder: the run folder.
        recipe: what is to be done in it.
        allow: keys and sections of the recipe that may differ from what the folder holds.

    Raises:
        ValueError: the folder holds something else, or the run of another recipe.
    """
    check_allowed(recipe, allow)
    there = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    if not {*there} - UNCLAIMED and (folder.is_dir() or not folder.exists()):
        return False
    if not (folder / RECIPE).is_file():
        raise ValueError(f"{folder}: is there and holds no run; give another run=FOLDER")
    refuse_changes(folder, recipe_changes(read_recipe(folder / RECIPE), recipe), allow)
    return True


def open_run(folder: Path, recipe: Recipe, allow: Sequence[str] = ()) -> RunState:
    """How far the run has come that `holds_run` is of; nothing is written.

    All of its newest checkpoint is read and checked.
    """
    newest = None
    if holds_run(folder, recipe, allow):
        newest = CheckpointFolder(folder / "checkpoints").newest()
    if newest is None:
        return RunState()
    state = read_state(newest)
    state.finished = state.is_over(recipe.training)
    return state


def may_be_finished(folder: Path, recipe: Recipe) -> bool:
    """Whether the newest checkpoint says that nothing is left to do; the rest is not looked at."""
    store = CheckpointFolder(folder / "checkpoints")
    steps = store.steps()
    try:
        return bool(steps) and read_state(store.at(steps[0])).is_over(recipe.training)
    except (OSError, ValueError):  # `open_run` tells of the damage
        return False


def read_data(folder: Path) -> dict[str, Fingerprint]:
    """What the run's splits held, by name; nothing if that was never written."""
    path = folder / DATA
    if not path.exists():
        return {}
    with _naming(path):
        content: dict[str, Fingerprint] = json.loads(path.read_text(encoding="utf-8"))
    return content


def prepare_run_folder(
    folder: Path, recipe: Recipe, state: RunState, data: dict[str, Fingerprint]
) -> None:
    """Make the folder this run's own, cut back to where its last checkpoint stands.

    A recipe and data that have changed replace those before, which stay beside them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not state.step or read_data(folder) != data:
        _replace_and_keep(folder / DATA, json.dumps(data, indent=1) + "\n", state.step)
    if not (folder / RECIPE).exists() or recipe_changes(read_recipe(folder / RECIPE), recipe):
        _replace_and_keep(folder / RECIPE, recipe_text(recipe), state.step)
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    CheckpointFolder(folder / "checkpoints").cut_back(state.step)
    logged = state.step if state.pending is None else state.step - 1
    if (folder / LOG).exists():
        cut_log(folder / LOG, logged)
    tensorboard.cut_back(folder, logged)


def _replace_and_keep(path: Path, text: str, step: int) -> None:
    """Writes a file anew; the one that was trained by up to a step stays under another name."""
    kept = path.with_stem(f"{path.stem}.step-{step:08d}")
    if step and path.exists() and not kept.exists():
        replace_file(kept, path.read_text(encoding="utf-8"))
    replace_file(path, text)


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
    text = json.dumps({"format_version": FORMAT_VERSION, **asdict(state)}, indent=2) + "\n"
    (folder / STATE).write_text(text, encoding="utf-8")


def read_state(folder: Path) -> RunState:
    """What `write_state` wrote; ValueError when it is damaged."""
    path = folder / STATE
    with _naming(path):
        content = json.loads(path.read_text(encoding="utf-8"))
        version = {"format_version": content.pop("format_version", 1)}
    check_format_version(path, version, FORMAT_VERSION)
    with _naming(path):
        return RunState(**content)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Raise ValueError that names a file whose content is invalid."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: damaged ({error}); start a new run") from None


def as_arrays(groups: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Variables by group and order; not copies where TensorFlow lends its memory."""
    return {
        f"{group}.{number}": np.asarray(tf.convert_to_tensor(variable.value))
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> Entry:
    """Save `as_arrays` in one `.npz`; what a manifest says of it."""
    with HashedFile(path) as file:
        np.savez(file, **arrays)
    return file.entry


def read_variables(path: Path, groups: Mapping[str, Sequence[Any]]) -> None:
    """Assign what `write_arrays` saved.

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
