"""A recipe small enough to train in a test, and a finished run of it that all tests share."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from filelock import FileLock

from attention_zoo import tasks, training
from attention_zoo.checkpoints import CheckpointFolder
from tests.tiers import SHARED_FOLDER

RECIPE = """\
data:
  corpus: dates
  size: 300
  validation_size: 40
  test_size: 20
  max_phrases: 1
tokenizer:
  kind: word
model:
  preset: rnnsearch_small
  embedding_dim: 8
  units: 16
training:
  steps: 40
  evaluate_every: 20
  batch_size: 16
  learning_rate: 0.01
"""

RESUME_OVERRIDES = ("model.dropout=0.2", "training.schedule=cosine", "training.checkpoint_every=9")
"""Overrides that make an inexact resume visible: dropout, a schedule, frequent checkpoints."""


def write_recipe(folder: Path, text: str = RECIPE) -> Path:
    """Write a recipe to a file and return its path."""
    path = folder / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def fit(folder: Path, *overrides: str, callbacks: Sequence[Any] = (), **options: Any) -> Any:
    """Train the recipe of `RECIPE` in `folder / run`, with these overrides and training options."""
    training_options = (f"training.{name}={value}" for name, value in options.items())
    overrides = (f"run={folder / 'run'}", *overrides, *training_options)
    return training.fit(write_recipe(folder), overrides, callbacks)


@functools.cache
def small_run() -> Path:
    """Return a read-only finished run of `RECIPE`, trained once for all workers, which copy it."""
    folder = Path(tempfile.mkdtemp(prefix="attention_zoo_"))
    atexit.register(shutil.rmtree, folder, True)
    shared = Path(os.environ.get(SHARED_FOLDER, folder)) / "small"
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            run = training.fit(write_recipe(folder), [f"run={folder / 'small'}"]).folder
            shutil.move(run, shared)  # complete: a worker may be killed while it trains
    return Path(shutil.copytree(shared, folder / "run"))


def copy_of_small_run(folder: Path) -> Path:
    """Return a copy of `small_run` that a test may change."""
    return Path(shutil.copytree(small_run(), folder / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files by their path in the folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def records(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def newest(folder: Path) -> Path:
    checkpoint = CheckpointFolder(folder / "checkpoints").newest()
    assert checkpoint is not None
    return checkpoint


def arrays(folder: Path) -> dict[str, np.ndarray]:
    with np.load(newest(folder) / "training.npz") as file:
        return {name: file[name] for name in file.files}


def weights(folder: Path) -> list[np.ndarray]:
    model = tasks.load(newest(folder)).model
    return [keras.ops.convert_to_numpy(weight) for weight in model.weights]


def assert_same_run(expected_run: Path, run: Path) -> None:
    """Assert that two runs have equal weights, training variables, and logs except for times."""
    expected, actual = arrays(expected_run), arrays(run)
    assert expected.keys() == actual.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)
    for expected_weight, weight in zip(weights(expected_run), weights(run), strict=True):
        np.testing.assert_array_equal(weight, expected_weight)
    assert without_times(records(run)) == without_times(records(expected_run))
    expected_state, state = (
        json.loads((newest(folder) / "training.json").read_text()) for folder in (expected_run, run)
    )
    assert without_times([expected_state]) == without_times([state])


def assert_similar_run(one: Path, other: Path) -> None:
    """Assert that weights, optimizer and logged losses of two runs are equal up to rounding."""
    expected, actual = arrays(one), arrays(other)
    assert expected.keys() == actual.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, atol=1e-6, err_msg=name)
    for before, after in zip(weights(one), weights(other), strict=True):
        np.testing.assert_allclose(after, before, atol=1e-6)
    for before, after in zip(records(one), records(other), strict=True):
        for name in ("step", "loss", "val_loss"):
            assert after[name] == pytest.approx(before[name], rel=1e-5)


def without_times(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return log entries without times."""
    timed = ("seconds", "tokens_per_second", "examples_per_second")
    return [{k: v for k, v in entry.items() if k not in timed} for entry in entries]
