"""The one fit: from a recipe to a trained task in a run folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras

from attention_zoo import tasks
from attention_zoo.checkpoints import CheckpointFolder
from attention_zoo.data import PairBatches, TextPairs
from attention_zoo.registry import did_you_mean
from attention_zoo.training.building import build_task
from attention_zoo.training.callbacks import (
    Checkpoints,
    Clock,
    Follower,
    Log,
    Measure,
    Progress,
    training_variables,
)
from attention_zoo.training.devices import device_names, make_strategy, use_xla
from attention_zoo.training.hosts import agree, is_chief, told_of_loss
from attention_zoo.training.intervals import Intervals
from attention_zoo.training.lock import only_trainer
from attention_zoo.training.optimizers import build_optimizer
from attention_zoo.training.recipe import Recipe, TrainingOptions, override_recipe, read_recipe
from attention_zoo.training.run_folder import (
    VARIABLES,
    RunState,
    claim,
    open_run,
    read_variables,
)
from attention_zoo.training.step import Steps, check_loss
from attention_zoo.training.stopping import Stopped, StopRequest, stop_requests


@dataclass(frozen=True)
class Result:
    """What a run has come to.

    Args:
        folder: the run folder.
        step: updates done.
        best: the monitored value of the best checkpoint.
        best_step: its step.
        seconds: time spent in training steps.
    """

    folder: Path
    step: int
    best: float | None
    best_step: int
    seconds: float

    @property
    def task(self) -> Any:
        """The task of the best checkpoint, ready to predict."""
        return tasks.load(self.folder)


def fit(
    recipe: str | Path | Recipe,
    overrides: Sequence[str] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> Result:
    """Train what a recipe says, in its run folder; go on where an earlier start stopped.

    Args:
        recipe: a YAML file or a `Recipe`.
        overrides: `key.key=value` on top of it.
        callbacks: Keras callbacks beside ours, and after them; one training "epoch" is one
            evaluation interval, one "batch" one update. One that stops training ends the call; the
            same recipe goes on.

    Returns:
        How far the run is. A run that is finished already is left as it is.

    Raises:
        ValueError: a mistake in the recipe or the data, a folder that belongs to another run or
            that another process trains in, a loss that is not finite, devices that are not there,
            or a host that is gone.
        Stopped: a `KeyboardInterrupt`: SIGINT or SIGTERM came. The step was finished and saved.
    """
    if isinstance(recipe, Recipe):
        recipe = override_recipe(recipe, overrides)
    else:
        recipe = read_recipe(recipe, overrides)
    if recipe.run is None:
        raise ValueError("run is missing; name the run's folder with run=FOLDER")
    folder = Path(recipe.run)
    state = open_run(folder, recipe)
    if state.finished:
        print(f"{folder}: finished at step {state.step}, nothing to do")
    else:
        strategy = make_strategy(recipe.training.devices)
        holding = only_trainer(folder) if is_chief() else nullcontext()
        with holding, told_of_loss(), dtype_policy(recipe.training.precision):
            state = open_run(folder, recipe)
            job = prepare(recipe, folder, state, strategy)
            print(headline(job), flush=True)
            with stop_requests() as request:  # the chief heeds it; the others end when it has
                run(job, request if is_chief() else StopRequest(), callbacks)
    return Result(folder, state.step, state.best, state.best_step, state.seconds)


@dataclass(frozen=True)
class Job:
    """All that a training run needs, ready to start.

    Args:
        recipe: what to do.
        folder: where.
        state: from which step.
        task: the task, its model compiled and restored.
        steps: the compiled steps of its model.
        train: the training batches.
        validation: the validation split.
        validation_batches: those of it that fit, in batches.
        left_out: training examples over the length limits.
    """

    recipe: Recipe
    folder: Path
    state: RunState
    task: Any
    steps: Steps
    train: PairBatches
    validation: TextPairs
    validation_batches: PairBatches
    left_out: int


@contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Keras's dtype policy for the layers built inside."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def prepare(recipe: Recipe, folder: Path, state: RunState, strategy: Any) -> Job:
    """Read the data, build or restore the task, and claim the folder when all of it works."""
    keras.utils.set_random_seed(recipe.seed)
    examples = recipe.data.read("train")
    validation = recipe.data.read("validation")
    checkpoint = CheckpointFolder(folder / "checkpoints").at(state.step)
    with strategy.scope():
        optimizer = build_optimizer(recipe.training)
        task = tasks.load(checkpoint) if state.step else build_task(recipe, examples)
        check_monitor(recipe.training.monitor, task)
        steps = compile_steps(recipe.training, task, optimizer, strategy)
    train, some = (
        task.batches(split, recipe.training.batch_size, recipe.seed)
        for split in (examples, validation)
    )
    if state.step:
        read_variables(checkpoint / VARIABLES, training_variables(steps))
        steps.averages.swap()
    agree(strategy, state.step)
    if is_chief():
        claim(folder, recipe, state)
    left_out = len(examples) - len(train)
    return Job(recipe, folder, state, task, steps, train, validation, some, left_out)


def compile_steps(options: TrainingOptions, task: Any, optimizer: Any, strategy: Any) -> Steps:
    """The steps of a task's model, with all variables made; in the strategy's scope."""
    model = task.model
    loss = task.loss(options.label_smoothing)
    check_loss(loss)
    model.compile(optimizer=optimizer, loss=loss, auto_scale_loss=False)
    model.optimizer.build(model.trainable_variables)
    return Steps(
        model,
        strategy,
        accumulate=options.accumulate,
        clip_norm=options.clip_norm,
        ema=options.ema,
        jit=use_xla(options.jit, strategy),
    )


def check_monitor(name: str, task: Any) -> None:
    """ValueError unless a run of this task can be judged by that name."""
    known = ("loss", *task.metric_names)
    if name not in known:
        raise ValueError(
            f"training.monitor={name}: unknown{did_you_mean(name, known)}"
            f" (known: {', '.join(known)})"
        )


def headline(job: Job) -> str:
    """One line: model, parameters, data, devices, precision, place."""
    start = f", continued from step {job.state.step}" if job.state.step else ""
    left_out = f" ({job.left_out:,} over the length limits left out)" if job.left_out else ""
    return (
        f"{job.recipe.model.get('preset', type(job.task.model).__name__)}:"
        f" {job.task.model.count_params():,} parameters;"
        f" {len(job.train):,} training pairs{left_out}, {len(job.validation):,} validation pairs;"
        f" {device_names(job.steps.strategy)}; {job.recipe.training.precision};"
        f" {job.folder}{start}"
    )


def run(job: Job, request: StopRequest, callbacks: Sequence[keras.callbacks.Callback]) -> None:
    """Train to the end, with what is written down by the host that keeps the run folder."""
    options, state, steps = job.recipe.training, job.state, job.steps
    clock = Clock(state, request, "tokens" if hasattr(steps.model.loss, "count") else "examples")
    keeper = Checkpoints if is_chief() else Follower
    saving = keeper(job.task, steps, job.folder, options, state, request)
    watchers = [clock, *measures(job), saving]
    if is_chief():
        log, progress = Log(job.folder, clock), Progress(options.steps, clock)
        watchers = [clock, *measures(job), log, saving, progress]
    watchers += callbacks
    try:
        Intervals(steps, job.train, job.validation_batches, options, state, watchers).run()
    except Stopped:
        if state.pending is not None:
            saving.save()
        raise


def measures(job: Job) -> list[keras.callbacks.Callback]:
    """What measures the task's own metrics, if the run is judged by one."""
    options, validation = job.recipe.training, job.validation
    if options.monitor == "loss":
        return []
    size = options.monitor_size
    some = replace(validation, sources=validation.sources[:size], targets=validation.targets[:size])
    return [Measure(partial(job.task.evaluate, some), job.task.metric_names)]
