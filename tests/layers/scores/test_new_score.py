"""Adding a score takes one file and one test file: a rehearsal in a copy of the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.project import NOT_INHERITED, Project

SCORE = '''"""Distance score: similarity by negative squared distance."""

from __future__ import annotations

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score
from attention_zoo.ops import at_least_float32
from attention_zoo.typing import Shape, Tensor


@SCORES.register("distance")
@keras.saving.register_keras_serializable("attention_zoo")
class DistanceScore(Score):
    """Negative squared distance of query and key, multiplied by a learned sharpness.

    `score(q, k) = -a ||q - k||^2`

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(..., T, D)`.
        key: `(..., S, D)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Weights:
        sharpness: a, a scalar.

    Masking:
        None here: the attention layer masks the scores and zeros masked keys.

    Cost:
        O(T S D) time and memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import DistanceScore
        >>> query, key = np.array([[[3.0, 4.0]]], "float32"), np.zeros((1, 1, 2), "float32")
        >>> float(DistanceScore()(query, key)[0, 0, 0])
        -25.0

    Reference:
        This library.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.sharpness = self.add_weight(shape=(), initializer="ones", name="sharpness")
        self.built = True

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        query, keys = at_least_float32(query), at_least_float32(keys)
        difference = query[..., :, None, :] - keys[..., None, :, :]
        distance = ops.sum(ops.square(difference), axis=-1)
        return -ops.cast(self.sharpness, distance.dtype) * distance
'''
PAGE = Path(__file__).parents[3] / "docs" / "write-your-own.md"
IMPORTS = """import numpy as np

from attention_zoo.layers import DistanceScore
from tests.layers.conformance import ScoreConformance


"""
NEW_FILE = "attention_zoo/layers/scores/distance.py"
NEW_TEST = "tests/layers/scores/test_distance.py"
SELECTED = "house or interface or coverage or gallery or istance"
TESTED = [
    "tests/test_house.py",
    "tests/test_interface.py",
    "tests/test_docs.py",
    "tests/layers/attention/test_coverage.py",
    "tests/layers/attention/test_multi_head_attention.py",
    "tests/layers/attention/test_products.py",
    NEW_TEST,
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
        directory = f"BIN={Path(sys.executable).parent}"
        return self.run("make", "--no-print-directory", target, directory)

    def pytest(self, *arguments: str) -> str:
        return self.run(sys.executable, "-m", "pytest", "-q", *arguments)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_new_score_takes_one_file_and_one_test_file(tmp_path: Path) -> None:
    """Those of docs/write-your-own.md; `make docs` adds the picture that the full tier asks for.

    It is drawn here without building the site, which takes minutes.
    """
    copy = Copy(tmp_path / "copy")
    (copy.folder / NEW_FILE).write_text(SCORE, "utf-8")
    (test,) = re.findall(r"```python\n(class Test.*?)```", PAGE.read_text("utf-8"), re.S)
    (copy.folder / NEW_TEST).write_text(IMPORTS + test, "utf-8")
    copy.make("lint")
    copy.pytest(*TESTED, "-k", SELECTED)
    assert copy.changed_files() == {NEW_FILE, NEW_TEST}

    assert copy.run(sys.executable, "docs/make_gallery.py").splitlines()[-1] == "distance"
    copy.pytest("--full", NEW_TEST, "tests/test_docs.py", "-k", "gallery or istance")
    generated = {"docs/gallery.md", "docs/gallery/distance.png"}
    assert copy.changed_files() == {NEW_FILE, NEW_TEST} | generated
