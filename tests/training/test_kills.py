"""A run that SIGKILL stops at random steps resumes exactly."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.small import RESUME_OVERRIDES, assert_same_run, write_recipe

TRAIN = """
import os, signal, sys
import keras
from attention_zoo import training

class Kill(keras.callbacks.Callback):
    left = int(sys.argv[1])
    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

training.fit(sys.argv[2], sys.argv[3:], [Kill()])
"""


def train(batches: int, *arguments: str) -> int:
    """Train until the process kills itself after `batches` batches; return the exit code."""
    command = [sys.executable, "-c", TRAIN, str(batches), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
    return done.returncode


def kill_repeatedly(kills: int, every: int, arguments: list[str]) -> None:
    """Kill a run repeatedly, each time after one or two checkpoints, then train to the end."""
    rng = random.Random(kills)
    arguments = [*arguments, f"training.checkpoint_every={every}"]
    for _ in range(kills):
        assert train(rng.randint(every, 2 * every), *arguments) == -signal.SIGKILL
    assert train(10**6, *arguments) == 0


@pytest.mark.slow
def test_five_kills_of_one_run(uninterrupted_run: Path, tmp_path: Path) -> None:
    arguments = [str(write_recipe(tmp_path)), f"run={tmp_path / 'run'}", *RESUME_OVERRIDES]
    kill_repeatedly(5, 3, arguments)
    assert_same_run(uninterrupted_run, tmp_path / "run")


KILLS = [pytest.param(n, marks=pytest.mark.soak if n else pytest.mark.slow) for n in range(20)]


@pytest.mark.parametrize("kill", KILLS)
def test_one_kill_of_each_of_twenty_runs(
    kill: int, uninterrupted_run: Path, tmp_path: Path
) -> None:
    rng = random.Random(kill)
    arguments = [str(write_recipe(tmp_path)), f"run={tmp_path / 'run'}", *RESUME_OVERRIDES]
    assert train(rng.randint(1, 39), *arguments) == -signal.SIGKILL
    assert train(10**6, *arguments) == 0
    assert_same_run(uninterrupted_run, tmp_path / "run")


@pytest.mark.soak
def test_fifty_kills_of_one_run(tmp_path: Path) -> None:
    arguments = [str(write_recipe(tmp_path)), *RESUME_OVERRIDES, "training.steps=320"]
    assert train(10**6, *arguments, f"run={tmp_path / 'uninterrupted'}") == 0
    kill_repeatedly(50, 3, [*arguments, f"run={tmp_path / 'run'}"])
    assert_same_run(tmp_path / "uninterrupted", tmp_path / "run")
