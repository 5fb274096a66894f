"""Killed at random steps, by SIGKILL, a run comes to what it would have come to."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.small import RESUMED, assert_same_run, write_recipe

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


def train(batches: int, *words: str) -> int:
    """Trains until it is killed after so many batches, or to its end; the exit code."""
    command = [sys.executable, "-c", TRAIN, str(batches), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
    return done.returncode


def kill_again_and_again(kills: int, every: int, words: list[str]) -> None:
    """A chain of kills, each after one or two checkpoints, and then the end."""
    rng = random.Random(kills)
    words = [*words, f"training.checkpoint_every={every}"]
    for _ in range(kills):
        assert train(rng.randint(every, 2 * every), *words) == -signal.SIGKILL
    assert train(10**6, *words) == 0


@pytest.mark.slow
def test_a_chain_of_five_kills(whole: Path, tmp_path: Path) -> None:
    words = [str(write_recipe(tmp_path)), f"run={tmp_path / 'run'}", *RESUMED]
    kill_again_and_again(5, 3, words)
    assert_same_run(whole, tmp_path / "run")


KILLS = [pytest.param(n, marks=pytest.mark.soak if n else pytest.mark.slow) for n in range(20)]


@pytest.mark.parametrize("kill", KILLS)
def test_twenty_kills(kill: int, whole: Path, tmp_path: Path) -> None:
    rng = random.Random(kill)
    words = [str(write_recipe(tmp_path)), f"run={tmp_path / 'run'}", *RESUMED]
    assert train(rng.randint(1, 39), *words) == -signal.SIGKILL
    assert train(10**6, *words) == 0
    assert_same_run(whole, tmp_path / "run")


@pytest.mark.soak
def test_a_chain_of_fifty_kills(tmp_path: Path) -> None:
    words = [str(write_recipe(tmp_path)), *RESUMED, "training.steps=320"]
    assert train(10**6, *words, f"run={tmp_path / 'whole'}") == 0
    kill_again_and_again(50, 3, [*words, f"run={tmp_path / 'run'}"])
    assert_same_run(tmp_path / "whole", tmp_path / "run")
