"""The one fit: from a recipe to a trained task in a run folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from attention_zoo import tasks
from attention_zoo.checkpoints import CheckpointFolder
from attention_zoo.data import PairBatches, TextPairs
from attention_zoo.registry import did_you_mean
from attention_zoo.training.building import build_task, load_task, with_options
from attention_zoo.training.callbacks import (
    Checkpoints,
    Clock,
    Log,
    Measure,
    Progress,
    training_variables,
)
from attention_zoo.training.changes import data_changes, fingerprint, refuse_changes
from attention_zoo.training.faults import writing_run
from attention_zoo.training.fine_tuning import freeze, initial_task
from attention_zoo.training.lock import only_trainer
from attention_zoo.training.optimizers import build_optimizer
from attention_zoo.training.pictures import SHOWN, Draw, Pictures
from attention_zoo.training.recipe import Recipe, override_recipe, read_recipe
from attention_zoo.training.run_folder import (
    VARIABLES,
    RunState,
    claim,
    holds_run,
    open_run,
    read_data,
    read_variables,
    seems_over,
)
from attention_zoo.training.stopping import Stopped, StopRequest, stop_requests
from attention_zoo.training.tensorboard import Events


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
    allow: Sequence[str] = (),
    draw: Draw | None = None,
) -> Result:
    """Train what a recipe says, in its run folder; go on where an earlier start stopped.

    Args:
        recipe: a YAML file or a `Recipe`.
        overrides: `key.key=value` on top of it.
        callbacks: Keras callbacks beside ours, and after them; one training "epoch" is one
            evaluation interval, and each is a `fit` of its own. One that stops training ends the
            call; the same recipe goes on.
        allow: keys and sections of the recipe ("training.steps", "data") that may differ from
            those that the run was begun with; "data.train" and "data.validation" are the examples
            of that split, too. The recipe replaces the run's. What decides what a checkpoint
            holds (`training.changes.FIXED`) cannot change.
        draw: a picture of an answer, as pixels `(height, width, channels)` of bytes or None, for
            TensorBoard: drawn of a few validation examples at each evaluation.

    Returns:
        How far the run is. A run that is finished already is left as it is.

    Raises:
        ValueError: a mistake in the recipe or the data, a folder that belongs to another run, of
            which recipe or data have changed, or that another process trains in, or a loss that
            is not finite.
        OSError: the folder cannot be written. What was saved before is whole.
        Stopped: a `KeyboardInterrupt`: SIGINT or SIGTERM came. The step was finished and saved.
    """
    if isinstance(recipe, Recipe):
        recipe = override_recipe(recipe, overrides)
    else:
        recipe = read_recipe(recipe, overrides)
    if recipe.run is None:
        raise ValueError("run is missing; name the run's folder with run=FOLDER")
    folder = Path(recipe.run)
    holds_run(folder, recipe, allow)
    state = open_run(folder, recipe, allow) if seems_over(folder, recipe) else RunState()
    if state.finished:
        print(f"{folder}: finished at step {state.step}, nothing to do")
    else:
        policy = dtype_policy(recipe.training.precision)
        with writing_run(folder), only_trainer(folder), policy:
            state = open_run(folder, recipe, allow)
            job = prepare(recipe, folder, state, allow)
            print(headline(job), flush=True)
            with stop_requests() as request:
                run(job, request, callbacks, draw)
    return Result(folder, state.step, state.best, state.best_step, state.seconds)


@dataclass(frozen=True)
class Job:
    """All that a training run needs, ready to start.

    Args:
        recipe: what to do.
        folder: where.
        state: from which step.
        task: the task, its model compiled and restored.
        train: the training batches.
        validation: the validation split, without what is over the length limits.
        validation_batches: the same in batches.
        left_out: examples over the length limits of either split, by name.
    """

    recipe: Recipe
    folder: Path
    state: RunState
    task: Any
    train: PairBatches
    validation: TextPairs
    validation_batches: PairBatches
    left_out: dict[str, int]


@contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Keras's dtype policy for the layers built inside."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def prepare(recipe: Recipe, folder: Path, state: RunState, allow: Sequence[str] = ()) -> Job:
    """Read the data, build or restore the task, and claim the folder when all of it works."""
    keras.utils.set_random_seed(recipe.seed)
    optimizer = build_optimizer(recipe.training)
    examples = recipe.data.read("train")
    validation = recipe.data.read("validation")
    data = {"train": fingerprint(examples), "validation": fingerprint(validation)}
    if state.step:
        refuse_changes(folder, data_changes(read_data(folder), data), allow)
    checkpoint = CheckpointFolder(folder / "checkpoints").at(state.step)
    task = load_task(recipe, checkpoint) if state.step else first_task(recipe, examples)
    freeze(task.model, recipe.training.frozen)
    check_monitor(recipe.training.monitor, task)
    train, some = (
        task.batches(split, recipe.training.batch_size, recipe.seed)
        for split in (examples, validation)
    )
    fitting = task.within_limits(validation)
    task.model.compile(
        optimizer=optimizer,
        loss=task.loss(recipe.training.label_smoothing),
        jit_compile=use_xla(recipe.training.jit),
    )
    task.model.optimizer.build(task.model.trainable_variables)
    if state.step:
        variables = training_variables(task.model)
        variables.pop("metrics")
        read_variables(checkpoint / VARIABLES, variables)
    claim(folder, recipe, state, data)
    left_out = {
        "training": len(examples) - len(train),
        "validation": len(validation) - len(fitting),
    }
    return Job(recipe, folder, state, task, train, fitting, some, left_out)


def first_task(recipe: Recipe, examples: TextPairs) -> Any:
    """The task before its first step."""
    if recipe.init is None:
        return build_task(recipe, examples)
    return with_options(initial_task(recipe), recipe)


def check_monitor(name: str, task: Any) -> None:
    """ValueError unless a run of this task can be judged by that name."""
    known = ("loss", *task.metric_names)
    if name not in known:
        raise ValueError(
            f"training.monitor={name}: unknown{did_you_mean(name, known)}"
            f" (known: {', '.join(known)})"
        )


def use_xla(choice: bool | str) -> bool:
    """Whether to compile the training step; "auto" does where there is an accelerator."""
    if choice != "auto":
        return bool(choice)
    return any(not name.startswith("cpu") for name in keras.distribution.list_devices())


def headline(job: Job) -> str:
    """One line: model, parameters, data, devices, precision, place."""
    start = f", from the weights of {job.recipe.init}" if job.recipe.init else ""
    if job.state.step:
        start = f", continued from step {job.state.step}"
    return (
        f"{job.recipe.model.get('preset', type(job.task.model).__name__)}:"
        f" {job.task.model.count_params():,} parameters;"
        f" {counted(job.train, 'training', job)}, {counted(job.validation, 'validation', job)};"
        f" {', '.join(keras.distribution.list_devices())}; {job.recipe.training.precision};"
        f" {job.folder}{start}"
    )


def counted(pairs: Sized, split: str, job: Job) -> str:
    """How many pairs of a split are used, and how many are not."""
    left_out = job.left_out[split]
    why = f" ({left_out:,} over the length limits left out)" if left_out else ""
    return f"{len(pairs):,} {split} pairs{why}"


def run(
    job: Job,
    request: StopRequest,
    callbacks: Sequence[keras.callbacks.Callback],
    draw: Draw | None = None,
) -> None:
    """Train to the end, one Keras `fit` an evaluation interval."""
    options, state, model = job.recipe.training, job.state, job.task.model
    validation = job.validation_batches.in_order()
    clock = Clock(state, partial(count_tokens, job.train), request, running_means(job))
    saving = Checkpoints(job.task, job.folder, options, state, request)
    events = Events(job.folder)
    log, progress = Log(job.folder, clock, events), Progress(options.steps, clock)
    shown = pictures(job, draw, events)
    watchers = [clock, *measures(job), *shown, log, saving, progress, *callbacks]
    try:
        while not state.finished:
            if state.pending is not None:
                interval = (state.step - 1) // options.evaluate_every
                finish_interval(model, validation, interval, state.pending, watchers)
                continue
            interval = state.step // options.evaluate_every
            stop = min((interval + 1) * options.evaluate_every, options.steps)
            model.fit(
                job.train.dataset(state.step, stop),
                validation_data=validation,
                initial_epoch=interval,
                epochs=interval + 1,
                callbacks=watchers,
                shuffle=False,
                verbose=0,
            )
            if model.stop_training or state.step < stop:  # a callback of the caller's wants it
                break
    except Stopped:
        if state.pending is not None:
            saving.refuse_nan(state.pending)
            saving.save()
        raise


def running_means(job: Job) -> Path | None:
    """Where the metrics of an interval that was begun are kept; None at the start of one."""
    state = job.state
    if state.step % job.recipe.training.evaluate_every == 0 or state.pending is not None:
        return None
    return CheckpointFolder(job.folder / "checkpoints").at(state.step) / VARIABLES


def measures(job: Job) -> list[keras.callbacks.Callback]:
    """What measures the task's own metrics, if the run is judged by one."""
    options, validation = job.recipe.training, job.validation
    if options.monitor == "loss":
        return []
    some = validation.take(range(min(options.monitor_size, len(validation))))
    return [Measure(partial(job.task.evaluate, some), job.task.metric_names)]


def pictures(job: Job, draw: Draw | None, events: Events) -> list[keras.callbacks.Callback]:
    """What draws the answers to a few validation examples, if that is asked for."""
    if draw is None:
        return []
    texts = job.validation.sources[:SHOWN]
    return [Pictures(partial(job.task.predict, texts), draw, events, job.state)]


def finish_interval(
    model: keras.Model,
    validation: Any,
    interval: int,
    trained: dict[str, float],
    callbacks: Sequence[keras.callbacks.Callback],
) -> None:
    """The evaluation that a signal cut short, as `fit` would have done it."""
    around = keras.callbacks.CallbackList(list(callbacks), model=model)
    around.on_train_begin()
    measured = model.evaluate(validation, callbacks=around, verbose=0, return_dict=True)
    logs = {**trained, **{f"val_{name}": x for name, x in measured.items()}}
    around.on_epoch_end(interval, logs)
    around.on_train_end(logs)


def count_tokens(batches: PairBatches, step: int) -> int:
    """Target tokens in the batch of a step, the end tokens counted."""
    labels = batches.batch(batches.rows(step))[1]
    return int(np.count_nonzero(labels))
