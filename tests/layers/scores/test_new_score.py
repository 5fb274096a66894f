"""Adding a score takes one file and one test file: a rehearsal in a copy of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.project import NOT_INHERITED, Project

SCORE = '''"""Manhattan score: similarity by the sum of absolute differences."""

from __future__ import annotations

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score, require_equal_widths
from attention_zoo.ops import at_least_float32
from attention_zoo.typing import Shape, Tensor


@SCORES.register("manhattan")
@keras.saving.register_keras_serializable("attention_zoo")
class ManhattanScore(Score):
    """Manhattan score: the negative sum of absolute differences of query and key.

    `score(q, k) = -sum_i |q_i - k_i|`

    Call arguments:
        query: `(..., T, D)`.
        key: `(..., S, D)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys.

    Cost:
        O(T S D) time and memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import ManhattanScore
        >>> query, key = np.array([[[3.0, 4.0]]], "float32"), np.zeros((1, 1, 2), "float32")
        >>> float(ManhattanScore()(query, key)[0, 0, 0])
        -7.0

    Reference:
        This library.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        require_equal_widths("manhattan", query_shape, key_shape, 'use score="additive"')
        self.built = True

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        query, keys = at_least_float32(query), at_least_float32(keys)
        return -ops.sum(ops.abs(query[..., :, None, :] - keys[..., None, :, :]), axis=-1)
'''
TEST = """from __future__ import annotations

import numpy as np

from attention_zoo.layers import ManhattanScore
from tests.layers.conformance import ScoreConformance


class TestManhattanScore(ScoreConformance):
    covers = ManhattanScore
    registered = "manhattan"
    widths = (6, 6)

    def oracle(self, weights: object, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        return -np.abs(query[..., :, None, :] - key[..., None, :, :]).sum(-1)

    def test_by_hand(self) -> None:
        query, key = np.array([[[1.0, 2.0]]], "float32"), np.array([[[3.0, -1.0]]], "float32")
        assert float(ManhattanScore()(query, key)[0, 0, 0]) == -5
"""
FILES = {
    "attention_zoo/layers/scores/manhattan.py": SCORE,
    "tests/layers/scores/test_manhattan.py": TEST,
}
CHECKS = [
    ["tests/test_house.py", "tests/test_interface.py", "tests/layers/attention/test_coverage.py"],
    ["tests/test_docs.py", "-k", "gallery"],
    ["tests/layers", "-k", "manhattan or SCORES"],
]


class Copy:
    """A copy of the repository, in which commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = Project().copy(folder).root
        self.before = self.read_files()

    def read_files(self) -> dict[str, bytes]:
        """Return the files that are neither caches nor hidden."""
        paths = [path for path in self.folder.rglob("*") if path.is_file()]
        names = {path.relative_to(self.folder).as_posix(): path for path in paths}
        hidden = ("__pycache__", "/.", "egg-info")
        return {
            n: p.read_bytes() for n, p in names.items() if not any(h in f"/{n}" for h in hidden)
        }

    def changed_files(self) -> set[str]:
        """Return the files that were added, edited or removed."""
        after = self.read_files()
        names = {*self.before, *after}
        return {name for name in names if self.before.get(name) != after.get(name)}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
        environment["PYTHONPATH"] = str(self.folder)
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True
        )

    def check(self, *command: str) -> None:
        """Run a Python module; fail with its output unless it succeeds."""
        done = self.run(sys.executable, "-m", *command)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
