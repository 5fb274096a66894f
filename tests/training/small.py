"""A recipe small enough to train inside a test, and one run of it that all tests share."""

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
from attention_zoo.checkpoints.folder import CheckpointFolder
from tests.tiers import SHARED_FOLDER

PAGE = """\
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

RESUMED = ("model.dropout=0.2", "training.schedule=cosine", "training.checkpoint_every=9")
"""Overrides by which a mistake in going on shows."""


def write_recipe(folder: Path, page: str = PAGE) -> Path:
    """The page as a file."""
    path = folder / "small.yaml"
    path.write_text(page, encoding="utf-8")
    return path


def fit(folder: Path, *words: str, callbacks: Sequence[Any] = (), **options: Any) -> Any:
    """Train the recipe of `PAGE` in `folder / run`, with these overrides and training options."""
    words = (f"run={folder / 'run'}", *words, *(f"training.{k}={v}" for k, v in options.items()))
    return training.fit(write_recipe(folder), words, callbacks)


@functools.cache
def small_run() -> Path:
    """Read-only finished run of `PAGE`, trained once for all workers, which copy it."""
    folder = Path(tempfile.mkdtemp(prefix="attention_zoo_"))
    atexit.register(shutil.rmtree, folder, True)
    shared = Path(os.environ.get(SHARED_FOLDER, folder)) / "small"
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            run = training.fit(write_recipe(folder), [f"run={folder / 'small'}"]).folder
            shutil.move(run, shared)  # complete: a worker may be killed while it trains
    return Path(shutil.copytree(shared, folder / "run"))


def copy_of_small_run(folder: Path) -> Path:
    """A copy of `small_run` that a test may change."""
    return Path(shutil.copytree(small_run(), folder / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files by their path in the folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def records(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def newest(folder: Path) -> Path:
    checkpoint = CheckpointFolder(folder / "checkpoints").find_newest()
    assert checkpoint is not None
    return checkpoint


def arrays(folder: Path) -> dict[str, np.ndarray]:
    with np.load(newest(folder) / "training.npz") as file:
        return {name: file[name] for name in file.files}


def weights(folder: Path) -> list[np.ndarray]:
    model = tasks.load(newest(folder)).model
    return [keras.ops.convert_to_numpy(weight) for weight in model.weights]


def assert_same_run(whole: Path, folder: Path) -> None:
    """Check that two runs have bit-identical results and logs."""
    expected, actual = arrays(whole), arrays(folder)
    assert expected.keys() == actual.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)
    for one, other in zip(weights(whole), weights(folder), strict=True):
        np.testing.assert_array_equal(other, one)
    assert timeless(records(folder)) == timeless(records(whole))
    one, other = (
        json.loads((newest(run) / "training.json").read_text()) for run in (whole, folder)
    )
    assert timeless([one]) == timeless([other])


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


def timeless(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries without what differs from start to start."""
    timed = ("seconds", "tokens_per_second", "examples_per_second")
    return [{k: v for k, v in entry.items() if k not in timed} for entry in entries]
