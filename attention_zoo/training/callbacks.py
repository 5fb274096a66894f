"""Keras callbacks of the training loop: step counter, logs, checkpoints."""

from __future__ import annotations

import json
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras

from attention_zoo.checkpoints.folder import CheckpointFolder
from attention_zoo.files import Entry
from attention_zoo.training.hosts import is_chief
from attention_zoo.training.recipe import TrainingOptions
from attention_zoo.training.run_folder import (
    LOG,
    VARIABLES,
    RunState,
    convert_to_arrays,
    write_arrays,
    write_state,
)
from attention_zoo.training.step import CompiledSteps
from attention_zoo.training.stopping import StopRequest
from attention_zoo.training.tensorboard import Events

Logs = dict[str, Any]


class Clock(keras.callbacks.Callback):
    """Callback that counts steps and seconds; must be the first one, because the others use it.

    Args:
        state: the run's state; its `step` and `seconds` are updated.
        request: the stop request; during an evaluation it takes effect immediately.
        unit: the unit of `state.count`: "tokens" or "examples".
    """

    def __init__(self, state: RunState, request: StopRequest, unit: str = "tokens") -> None:
        super().__init__()
        self.state, self.request, self.unit = state, request, unit
        self.counted = self.seconds = self._counted_before = 0.0
        self._lap = 0.0
        self._trained: Logs = {}

    @property
    def per_second(self) -> float:
        """Tokens or examples per second of training time in this evaluation interval."""
        return self.counted / self.seconds if self.seconds else 0.0

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._counted_before, self.seconds = self.state.count, 0.0

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self._lap = time.perf_counter()  # excludes time between batches, such as for saving

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.state.step += 1
        self.counted = self.state.count - self._counted_before
        taken = time.perf_counter() - self._lap
        self.seconds += taken
        self.state.seconds += taken
        self._trained = logs or {}

    def on_test_begin(self, logs: Logs | None = None) -> None:
        if self.state.pending is None:
            self.state.pending = dict(self._trained)
        self.request.at_once = True
        self.request.raise_if_requested()


class Log(keras.callbacks.Callback):
    """Callback that logs each evaluation, as one line of JSON and to TensorBoard.

    Args:
        folder: the run folder.
        clock: the source of step, seconds and throughput.
        events: the TensorBoard writer.
    """

    def __init__(self, folder: Path, clock: Clock, events: Events) -> None:
        super().__init__()
        self.path, self.clock, self.events = folder / LOG, clock, events

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.clock.request.at_once = False  # the run's files are written from here on
        logs = {} if logs is None else logs
        logs["learning_rate"] = float(self.model.optimizer.learning_rate)
        logs[f"{self.clock.unit}_per_second"] = round(self.clock.per_second, 1)
        step = self.clock.state.step
        line = {"step": step, "seconds": round(self.clock.state.seconds, 2), **logs}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())  # the log line must be on disk before its checkpoint
        self.events.write_scalars(step, logs)


class Checkpoints(keras.callbacks.Callback):
    """Callback that saves checkpoints, tracks the best one and detects the end of the run.

    A stop request triggers a checkpoint, and the run stops once that is saved. Only the chief of
    several hosts saves; the others update their state alike.

    Args:
        task: the task to save.
        steps: the compiled training and test steps of its model.
        folder: the run folder.
        options: the recipe's training section.
        clock: the source of the run's state and of the stop request.
    """

    def __init__(
        self, task: Any, steps: CompiledSteps, folder: Path, options: TrainingOptions, clock: Clock
    ) -> None:
        super().__init__()
        self.task, self.steps, self.options = task, steps, options
        self.store = CheckpointFolder(folder / "checkpoints")
        self.state, self.request = clock.state, clock.request
        self.saved_best = self.state.best_step

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        step, every = self.state.step, self.options.checkpoint_every
        at_evaluation = step % self.options.evaluate_every == 0 or step == self.options.steps
        due = every is not None and step % every == 0
        if at_evaluation or not (due or self.request.number):
            return
        self.save()
        self.request.raise_if_requested()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs, state = logs or {}, self.state
        value = logs[f"val_{self.options.monitor}"]
        state.waited += 1
        if self._is_better(value):
            state.best, state.best_step, state.waited = value, state.step, 0
        state.pending = None
        state.diverged = state.has_diverged(logs["loss"], logs["val_loss"])
        state.finished = state.is_over(self.options)
        # The next interval starts at 0, also after a resume.
        state.loss = state.auxiliary_loss = state.count = 0.0
        self.save()
        self.request.raise_if_requested()

    def _is_better(self, value: float) -> bool:
        best = self.state.best
        if not math.isfinite(value) or best is None:
            return math.isfinite(value)
        return value < best if self.options.monitor == "loss" else value > best

    def save(self) -> None:
        """Save a checkpoint of this step; delete all but the newest ones and the best one.

        The oldest one is deleted first, but never the newest or the best one. So, while the
        checkpoint is written, the disk holds `max(keep_checkpoints, 2)` of them besides the best.
        """
        if not is_chief():
            return
        step, count = self.state.step, self.options.keep_checkpoints
        older = [other for other in self.store.list_steps() if other != step]
        self.store.keep({step, *older[: max(count - 1, 1)], self.saved_best})
        self.store.save(step, self._write)
        self.saved_best = self.state.best_step
        self.store.keep({*self.store.list_steps()[:count], self.saved_best})

    def _write(self, folder: Path) -> dict[str, Entry]:
        """Write the files of a checkpoint; training variables and task are written in parallel."""
        with self.steps.averages.in_use(), ThreadPoolExecutor(1) as beside:
            arrays = convert_to_arrays(self.steps.variables)
            entry = beside.submit(write_arrays, folder / VARIABLES, arrays)
            self.task.save(folder)
            write_state(folder, self.state)
            return {VARIABLES: entry.result()}
