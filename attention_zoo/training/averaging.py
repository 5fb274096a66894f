"""Averages of a run's newest checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np

from attention_zoo import tasks
from attention_zoo.checkpoints.folder import CheckpointFolder
from attention_zoo.files import create_folder, write_manifest
from attention_zoo.hub import resolve_folder
from attention_zoo.training.run_folder import RECIPE


def average_checkpoints(folder: str | Path, last: int | None = None) -> Any:
    """Return a run's task with the mean weights of its newest checkpoints.

    `weight = (weight_1 + ... + weight_N) / N`, in float64; integers are those of the newest.

    Args:
        folder: a run folder. Damaged checkpoints are skipped with a warning.
        last: N, at least 2. None averages all checkpoints of the run, which may include an older
            best one.

    Raises:
        ValueError: the folder holds no run, fewer than N (or 2) checkpoints are intact, or the
            shapes of their weights differ.

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, section 6.1: the last 5 checkpoints, or 20.
    """
    newest, *others = _find_checkpoints(resolve_folder(folder), last)
    task = tasks.load(newest)
    weights = task.model.weights
    sums = [_as_float64(weight) for weight in weights]
    for path in others:
        other_weights = tasks.load(path).model.weights
        if [w.shape for w in other_weights] != [w.shape for w in weights]:
            raise ValueError(
                f"{path}: weights do not fit those of the newest checkpoint; average fewer"
                " checkpoints"
            )
        for total, weight in zip(sums, other_weights, strict=True):
            total += _as_float64(weight)
    for weight, total in zip(weights, sums, strict=True):
        if keras.backend.is_float_dtype(weight.dtype):
            weight.assign(total / (1 + len(others)))
    return task


def write_average(run: str | Path, folder: str | Path, last: int | None = None) -> Path:
    """Save the task of `average_checkpoints` together with the run's recipe.

    The commands `evaluate`, `predict` and `export` accept the folder.

    Args:
        run, last: as in `average_checkpoints`.
        folder: the folder to write; must not exist.

    Returns:
        The folder.

    Raises:
        ValueError: as in `average_checkpoints`, or the folder exists. Nothing is written then.
    """
    with create_folder(folder) as unfinished:
        average_checkpoints(run, last).save(unfinished)
        shutil.copyfile(resolve_folder(run) / RECIPE, unfinished / RECIPE)
        write_manifest(unfinished)
    return Path(folder)


def _find_checkpoints(folder: Path, last: int | None) -> list[Path]:
    """Return the intact checkpoints to average, newest first."""
    if last is not None and last < 2:
        raise ValueError(f"last must be at least 2, got {last}")
    if not (folder / RECIPE).is_file():
        raise ValueError(f"{folder}: not a run folder; pass one that `attention-zoo train` created")
    paths = CheckpointFolder(folder / "checkpoints").list_intact(last)
    needed = last or 2
    if len(paths) < needed:
        raise ValueError(
            f"{folder}: expected {needed} intact checkpoints to average, found {len(paths)};"
            f" average fewer (at least 2), or train with training.keep_checkpoints={needed}"
        )
    return paths


def _as_float64(weight: Any) -> np.ndarray:
    return np.array(keras.ops.convert_to_numpy(weight.value), "float64")
