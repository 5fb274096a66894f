"""A recipe small enough to train inside a test, and one run of it that all tests share."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from attention_zoo import training

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


def write_recipe(folder: Path, page: str = PAGE) -> Path:
    """The page as a file."""
    path = folder / "small.yaml"
    path.write_text(page, encoding="utf-8")
    return path


@functools.cache
def small_run() -> Path:
    """A finished run of `PAGE`; only to be read."""
    folder = Path(tempfile.mkdtemp(prefix="attention_zoo_"))
    atexit.register(shutil.rmtree, folder, True)
    return training.fit(write_recipe(folder), [f"run={folder / 'run'}"]).folder


def copy_of_small_run(folder: Path) -> Path:
    """A copy of `small_run` that a test may change."""
    return Path(shutil.copytree(small_run(), folder / "run"))
