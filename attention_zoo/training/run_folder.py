"""Run folder: its files, the state of the run, and checks before anything is written.

recipe.yaml                  the whole recipe
recipe.step-00000300.yaml    the previous recipe, if it was changed at that step; so for data.json
data.json                    number of examples of each split, and their SHA-256
checkpoints/step-00000300    a task folder, and the variables and state needed to resume
log.jsonl                    one line per evaluation
lock                         run lock, held during training
tensorboard/                 the log for TensorBoard
results.json                 written by `evaluate`
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from attention_zoo.checkpoints.folder import STATE, STATE_VERSION, CheckpointFolder
from attention_zoo.data.reading import get_first_line
from attention_zoo.data.storage.npz_files import NPZ_ERRORS, open_npz
from attention_zoo.files import Entry, HashedFile, explain_outdated, read_json, replace_file
from attention_zoo.json_files import MAX_VOCABULARY_BYTES
from attention_zoo.tasks import FileCorpus
from attention_zoo.training import tensorboard
from attention_zoo.training.changes import (
    Fingerprint,
    SplitReader,
    check_allowed,
    find_recipe_changes,
    is_same_path,
    refuse_changes,
)
from attention_zoo.training.lock import LOCK
from attention_zoo.training.recipe import Recipe, TrainingOptions, format_recipe, read_recipe

RECIPE, DATA, LOG, VARIABLES = "recipe.yaml", "data.json", "log.jsonl", "training.npz"
DATA_VERSION = 1
LEFTOVERS = {LOCK, DATA, f"{DATA}.new", f"{RECIPE}.new"}
"""Files that an interrupted start may leave in a folder before `recipe.yaml` exists."""
SHARED_PATHS = ("images", "captions")
"""Corpus options whose paths all splits share."""


@dataclass
class RunState:
    """Progress of a run.

    Args:
        step: number of updates done.
        best: the monitored value of the best checkpoint, None if no evaluation returned a
            finite value.
        best_step: step of the best checkpoint.
        waited: number of evaluations since the best one.
        seconds: time spent in training steps.
        finished: whether the run is finished.
        pending: the training metrics of an interval whose evaluation was not finished, or None.
        loss: sum of the losses of this interval, without auxiliary losses.
        count: number of tokens, or examples, in that sum.
        skipped: number of updates skipped because loss or gradient were not finite.
        first_loss: training loss of the first step.
        diverged: result of `has_diverged` in the last interval.
        auxiliary_loss: sum of the auxiliary losses of this interval, times their counts.
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
    first_loss: float | None = None
    diverged: bool = False
    auxiliary_loss: float = 0.0

    def is_over(self, options: TrainingOptions) -> bool:
        """Return whether the run is finished under these options."""
        tired = options.patience is not None and self.waited >= options.patience
        return self.pending is None and (tired or self.step >= options.steps)

    def has_diverged(self, loss: float, validation_loss: float) -> bool:
        """Return whether the training loss is far above the first one, or a loss is not finite."""
        if not math.isfinite(loss) or not math.isfinite(validation_loss):
            return True
        return self.first_loss is not None and loss > 2 * abs(self.first_loss) + 1


def holds_run(folder: Path, recipe: Recipe, allow: Sequence[str] = ()) -> bool:
    """Return whether the folder holds the run of this recipe; False if it holds no run yet.

    Args:
        folder: the run folder.
        recipe: the recipe to run in it.
        allow: keys and sections of the recipe that may differ from the recipe in the folder.

    Raises:
        ValueError: the folder holds something else, or the run of another recipe.
    """
    check_allowed(recipe, allow)
    there = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    if not {*there} - LEFTOVERS and (folder.is_dir() or not folder.exists()):
        return False
    if not (folder / RECIPE).is_file():
        raise ValueError(f"{folder}: exists but holds no run; use another run=FOLDER")
    if (folder / "checkpoints" / "last").is_dir():
        raise ValueError(
            f"{folder}: an outdated run (it has checkpoints/last) cannot be resumed; use another"
            f" run=FOLDER (init={folder} starts from the weights of this run)"
        )
    refuse_changes(folder, find_recipe_changes(read_recipe(folder / RECIPE), recipe), allow)
    return True


def find_moved_data(folder: Path, recipe: Recipe, reader: SplitReader | None = None) -> list[str]:
    """Return the keys of paths, such as `data.train`, that changed while their examples did not.

    The examples are compared with those that the run was trained on or, for a split that is not
    read in training, with those that the run's recipe names.

    Args:
        folder: the run folder.
        recipe: the recipe of the resumed run.
        reader: reader of the splits of `recipe.data`.

    Raises:
        ValueError: a split that training reads has another path, which is missing or damaged.
    """
    if not (folder / RECIPE).is_file() or not isinstance(recipe.data, FileCorpus):
        return []
    old, known = read_recipe(folder / RECIPE).data, read_data(folder)
    if type(old) is not type(recipe.data):
        return []
    before, after = vars(old), vars(recipe.data)
    changed = [name for name in after if before[name] != after[name]]
    readers = SplitReader(old), reader or SplitReader(recipe.data)

    @functools.cache
    def has_same_examples(split: str) -> bool:
        if split in known:
            return readers[1].read_fingerprint(split) == known[split]
        if all(is_same_path(before[name], after[name]) for name in changed):
            return True
        expected = _read_fingerprint(readers[0], split)
        return expected is not None and _read_fingerprint(readers[1], split) == expected

    moved = []
    for name in changed:
        # `train_images` belongs to split `train`.
        splits = [split for split in old.splits if split == name.partition("_")[0]]
        if name in SHARED_PATHS:
            splits = [split for split in old.splits if before[split]]
        if splits and all(map(has_same_examples, splits)):
            moved.append(f"data.{name}")
    return moved


def _read_fingerprint(reader: SplitReader, split: str) -> Fingerprint | None:
    """Return the fingerprint of a split; None if it cannot be read."""
    try:
        return reader.read_fingerprint(split)
    except (OSError, ValueError):
        return None


def open_run(folder: Path, recipe: Recipe, allow: Sequence[str] = ()) -> RunState:
    """Return the state of the run in a folder, which `holds_run` checks; write nothing.

    All files of the newest checkpoint are read and verified.
    """
    newest = None
    if holds_run(folder, recipe, allow):
        newest = CheckpointFolder(folder / "checkpoints").find_newest()
    if newest is None:
        return RunState()
    state = read_state(newest)
    state.finished = state.is_over(recipe.training)
    return state


def may_be_finished(folder: Path, recipe: Recipe) -> bool:
    """Return whether the state of the newest checkpoint is finished; check no other file."""
    store = CheckpointFolder(folder / "checkpoints")
    steps = store.list_steps()
    try:
        return bool(steps) and read_state(store.get_path(steps[0])).is_over(recipe.training)
    except (OSError, ValueError):  # `open_run` reports the damage
        return False


def read_data(folder: Path) -> dict[str, Fingerprint]:
    """Return the saved fingerprints of the run's splits by name; empty if there are none."""
    path = folder / DATA
    if not path.exists():
        return {}
    splits = read_json(path, DATA_VERSION, "start a new run", MAX_VOCABULARY_BYTES)
    with explain_outdated(path):
        return {
            name: {"examples": int(split["examples"]), "sha256": list(split["sha256"])}
            for name, split in splits.items()
        }


def prepare_run_folder(
    folder: Path, recipe: Recipe, state: RunState, data: dict[str, Fingerprint]
) -> None:
    """Write the run's files to the folder and roll it back to the last checkpoint.

    A changed recipe or changed data replace the old files, which are kept under other names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not state.step or read_data(folder) != data:
        text = json.dumps({"format_version": DATA_VERSION, **data}, indent=1) + "\n"
        _replace_and_keep(folder / DATA, text, state.step)
    if not (folder / RECIPE).exists() or find_recipe_changes(read_recipe(folder / RECIPE), recipe):
        _replace_and_keep(folder / RECIPE, format_recipe(recipe), state.step)
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    CheckpointFolder(folder / "checkpoints").delete_after(state.step)
    logged = state.step if state.pending is None else state.step - 1
    if (folder / LOG).exists():
        trim_log(folder / LOG, logged)
    tensorboard.trim_events(folder, logged)


def _replace_and_keep(path: Path, text: str, step: int) -> None:
    """Replace a file; keep the version that was used up to `step` under another name."""
    kept = path.with_stem(f"{path.stem}.step-{step:08d}")
    if step and path.exists() and not kept.exists():
        replace_file(kept, path.read_text(encoding="utf-8"))
    replace_file(path, text)


def trim_log(path: Path, step: int) -> None:
    """Remove the lines after a step, and an incomplete last line, from a log."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    try:
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path}: damaged ({error}); remove the damaged line") from None
    if kept != lines:
        replace_file(path, "".join(kept))


def write_state(folder: Path, state: RunState) -> None:
    """Write the run's state to the folder of a checkpoint."""
    text = json.dumps({"format_version": STATE_VERSION, **asdict(state)}, indent=2) + "\n"
    (folder / STATE).write_text(text, encoding="utf-8")


def read_state(folder: Path) -> RunState:
    """Read what `write_state` wrote; raise ValueError if it is damaged or outdated."""
    path = folder / STATE
    content = read_json(path, STATE_VERSION, "start a new run")
    with explain_outdated(path):
        return RunState(**content)


def convert_to_arrays(groups: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return variables as arrays by group and index, without copies where TensorFlow allows."""
    return {
        f"{group}.{number}": np.asarray(tf.convert_to_tensor(variable.value))
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> Entry:
    """Save the result of `convert_to_arrays` to one `.npz` file; return its manifest entry."""
    with HashedFile(path) as file:
        np.savez(file, **arrays)
    return file.entry


def read_variables(path: Path, groups: Mapping[str, Sequence[Any]]) -> None:
    """Assign the arrays that `write_arrays` saved to the variables.

    Raises:
        ValueError: the file is damaged or lacks a variable of that shape.
    """
    by_name = {
        f"{group}.{number}": variable
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    }
    try:
        with open_npz(path) as arrays:
            shapes = {name: header.shape for name, header in arrays.headers.items()}
            for name, variable in by_name.items():
                if shapes.get(name) != tuple(variable.shape):
                    raise _MissingVariableError(f"{variable.path} {tuple(variable.shape)}")
            for name, variable in by_name.items():
                variable.assign(arrays[name])
    except _MissingVariableError as error:
        raise ValueError(
            f"{path}: does not hold {error}; it was written by another version, start a new run"
        ) from None
    except NPZ_ERRORS as error:
        raise ValueError(f"{path}: damaged ({get_first_line(error)}); start a new run") from None


class _MissingVariableError(Exception):
    """A file has no array for a variable."""
