"""The best checkpoint is the one with the best finite value of the monitored metric."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.training.callbacks import Checkpoints, Clock
from attention_zoo.training.recipe import TrainingOptions
from attention_zoo.training.run_folder import RunState
from attention_zoo.training.stopping import StopRequest

INF = math.inf


@pytest.mark.parametrize(
    ("monitor", "values", "best_step", "best"),
    [
        ("loss", [INF], 0, None),
        ("loss", [math.nan, INF, 3.0, INF, 2.0, 2.5], 5, 2.0),
        ("bleu", [INF, 1.0, math.nan, 4.0, INF], 4, 4.0),
        ("bleu", [-INF, 0.0], 2, 0.0),
    ],
)
def test_values_that_are_not_finite_are_never_the_best(
    monitor: str,
    values: list[float],
    best_step: int,
    best: float | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Checkpoints, "save", lambda self: None)
    steps: Any = None
    clock = Clock(RunState(), StopRequest())
    options = TrainingOptions(monitor=monitor)
    callback = Checkpoints(None, steps, tmp_path, options, clock)
    for value in values:
        clock.state.step += 1
        callback.on_epoch_end(0, {"loss": 1.0, "val_loss": 1.0, f"val_{monitor}": value})
    assert (clock.state.best_step, clock.state.best) == (best_step, best)
    assert clock.state.waited == len(values) - best_step
