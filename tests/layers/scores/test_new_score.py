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

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(..., T, D)`.
        key: `(..., S, D)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

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
SELECTED = "house or interface or coverage or gallery or anhattan"
TESTED = [
    "tests/test_house.py",
    "tests/test_interface.py",
    "tests/test_docs.py",
    "tests/layers/attention/test_coverage.py",
    "tests/layers/attention/test_multi_head_attention.py",
    "tests/layers/attention/test_products.py",
    "tests/layers/scores/test_manhattan.py",
    "tests/layers/structures/test_attention_pooling.py",
    "tests/layers/structures/test_co_attention.py",
]
"""Tests of the fast tier that a new score could fail; SELECTED drops those of other scores."""


class Copy:
    """A copy of the repository, in which commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = Project().copy(folder).root
        (self.folder / ".venv").mkdir()
        self.before = self.read_files()

    def read_files(self) -> dict[str, bytes]:
        """Return the files that are neither hidden nor caches."""
        paths = [path for path in self.folder.rglob("*") if path.is_file()]
        files = {path.relative_to(self.folder).as_posix(): path for path in paths}
        return {
            name: path.read_bytes()
            for name, path in files.items()
            if "/." not in f"/{name}" and "__pycache__" not in name
        }

    def changed_files(self) -> set[str]:
        """Return the files that were added, edited or removed."""
        after = self.read_files()
        return {n for n in {*self.before, *after} if self.before.get(n) != after.get(n)}

    def run(self, *command: str) -> str:
        """Run a command; fail with its output unless it succeeds."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
        environment["PYTHONPATH"] = str(self.folder)
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def make(self, target: str) -> str:
        """Run a target of the Makefile with this environment, which has all packages."""
        (self.folder / ".venv" / "dev").touch()
        return self.run("make", target, f"BIN={Path(sys.executable).parent}")

    def pytest(self, *arguments: str) -> str:
        return self.run(sys.executable, "-m", "pytest", "-q", *arguments)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_new_score_takes_one_file_and_one_test_file(tmp_path: Path) -> None:
    """`make docs` adds the picture that the full tier asks for."""
    copy = Copy(tmp_path / "copy")
    for name, text in FILES.items():
        (copy.folder / name).write_text(text, "utf-8")
    copy.make("lint")
    assert " failed" not in copy.pytest(*TESTED, "-k", SELECTED)
    assert copy.changed_files() == set(FILES)

    assert copy.make("docs").splitlines()[-1] == "manhattan"
    copy.pytest("--full", "tests/layers/scores/test_manhattan.py")
    copy.pytest("--full", "tests/test_docs.py", "-k", "gallery")
    assert copy.changed_files() == {*FILES, "docs/gallery.md", "docs/gallery/manhattan.png"}
