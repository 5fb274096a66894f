"""Train the task of a recipe in a run folder (`fit`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras

from attention_zoo import tasks
from attention_zoo.checkpoints import CheckpointFolder
from attention_zoo.registry import did_you_mean
from attention_zoo.training.callbacks import (
    Checkpoints,
    Clock,
    Follower,
    Log,
    Measure,
    Progress,
    training_variables,
)
from attention_zoo.training.changes import data_changes, fingerprint, refuse_changes
from attention_zoo.training.devices import device_names, make_strategy, use_xla
from attention_zoo.training.faults import explain_io_errors
from attention_zoo.training.fine_tuning import freeze, initial_task
from attention_zoo.training.hosts import agree, explain_worker_loss, is_chief
from attention_zoo.training.lock import hold_run_lock
from attention_zoo.training.loop import TrainingLoop
from attention_zoo.training.optimizers import build_optimizer, exclude_from_weight_decay
from attention_zoo.training.pictures import SHOWN, Draw, Pictures
from attention_zoo.training.recipe import Recipe, TrainingOptions, override_recipe, read_recipe
from attention_zoo.training.run_folder import (
    VARIABLES,
    RunState,
    holds_run,
    may_be_finished,
    open_run,
    prepare_run_folder,
    read_data,
    read_variables,
)
from attention_zoo.training.step import Steps, check_loss
from attention_zoo.training.stopping import Stopped, StopRequest, stop_requests
from attention_zoo.training.tensorboard import Events


@dataclass(frozen=True)
class Result:
    """Result of a training run.

    Args:
        folder: the run folder.
        step: number of updates done.
        best: the monitored value of the best checkpoint; None before the first evaluation.
        best_step: step of the best checkpoint.
        seconds: time spent in training steps.
    """

    folder: Path
    step: int
    best: float | None
    best_step: int
    seconds: float

    @property
    def task(self) -> Any:
        """Task of the best checkpoint, ready to predict."""
        return tasks.load(self.folder)


def fit(
    recipe: str | Path | Recipe,
    overrides: Sequence[str] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
    allow: Sequence[str] = (),
    draw: Draw | None = None,
) -> Result:
    """Train the task of a recipe in its run folder, or resume the run from its last checkpoint.

    Args:
        recipe: a YAML file or a `Recipe`.
        overrides: `key.key=value` overrides of the recipe.
        callbacks: Keras callbacks, called after the built-in ones; one "epoch" is one evaluation
            interval, one "batch" one update. If one stops training, the call returns; the same
            recipe resumes the run.
        allow: keys and sections of the recipe ("training.steps", "data") that may differ from
            those that the run was started with; "data.train" and "data.validation" also allow
            other examples in that split. The run folder then contains the new recipe. The keys in
            `training.changes.FIXED` (model, optimizer and others that determine a checkpoint's
            variables) can never change.
        draw: function `(task, result)` that returns an image `(height, width, channels)`, uint8, or
            None. TensorBoard shows its images of a few validation examples at each evaluation.

    Returns:
        The result of the run. For a finished run, nothing is trained.

    Raises:
        ValueError: the recipe or the data are invalid, the folder contains another run, the recipe
            or the data differ from those of the run, another process trains in the folder, the loss
            or the gradient is not finite, devices are missing, or a host is lost.
        OSError: the folder cannot be written. Earlier checkpoints are intact.
        Stopped (a subclass of `KeyboardInterrupt`): SIGINT or SIGTERM was received; the current
            step was finished and a checkpoint saved.
    """
    if isinstance(recipe, Recipe):
        recipe = override_recipe(recipe, overrides)
    else:
        recipe = read_recipe(recipe, overrides)
    if recipe.run is None:
        raise ValueError("run is missing; name the run's folder with run=FOLDER")
    folder = Path(recipe.run)
    holds_run(folder, recipe, allow)  # raises ValueError if the folder contains another run
    state = open_run(folder, recipe, allow) if may_be_finished(folder, recipe) else RunState()
    if state.finished:
        print(f"{folder}: finished at step {state.step}, nothing to do")
    else:
        strategy = make_strategy(recipe.training.devices)
        holding = hold_run_lock(folder) if is_chief() else nullcontext()
        policy = dtype_policy(recipe.training.precision)
        with explain_io_errors(folder), holding, explain_worker_loss(), policy:
            state = open_run(folder, recipe, allow)
            job = prepare(recipe, folder, state, strategy, allow)
            print(headline(job), flush=True)
            with stop_requests() as request:
                # Only the chief handles signals; the other hosts stop when it does.
                run(job, request if is_chief() else StopRequest(), callbacks, draw)
    return Result(folder, state.step, state.best, state.best_step, state.seconds)


@dataclass(frozen=True)
class Job:
    """Everything that a training run needs, ready to start.

    Args:
        recipe: the recipe.
        folder: the run folder.
        state: the state to start or resume from.
        task: the task; its model is compiled and restored.
        steps: the compiled steps of its model.
        train: the training batches.
        validation: the validation split without examples over the length limits.
        validation_batches: the batches of the validation split.
        left_out: by split, the numbers of dropped examples: those over the length limits and bad
            ones (`data.skip_bad`).
    """

    recipe: Recipe
    folder: Path
    state: RunState
    task: Any
    steps: Steps
    train: Any
    validation: Any
    validation_batches: Any
    left_out: dict[str, tuple[int, int]]


@contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Set Keras's dtype policy for layers created inside this context."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def prepare(
    recipe: Recipe, folder: Path, state: RunState, strategy: Any, allow: Sequence[str] = ()
) -> Job:
    """Read the data, build or restore the task and, if that succeeds, prepare the folder."""
    keras.utils.set_random_seed(recipe.seed)
    examples = recipe.data.read("train")
    validation = recipe.data.read("validation")
    data = {"train": fingerprint(examples), "validation": fingerprint(validation)}
    if state.step:
        refuse_changes(folder, data_changes(read_data(folder), data), allow)
    checkpoint = CheckpointFolder(folder / "checkpoints").get_path(state.step)
    with strategy.scope():
        optimizer = build_optimizer(recipe.training)
        task = restore_task(recipe, checkpoint) if state.step else first_task(recipe, examples)
        freeze(task.model, recipe.training.frozen)
        check_monitor(recipe.training.monitor, task)
        steps = compile_steps(recipe.training, task, optimizer, strategy)
    train, some = (
        task.batches(split, recipe.training.batch_size, recipe.seed)
        for split in (examples, validation)
    )
    fitting = task.within_limits(validation)
    if state.step:
        read_variables(checkpoint / VARIABLES, training_variables(steps))
        steps.averages.swap()
    agree(strategy, state.step)
    if is_chief():
        prepare_run_folder(folder, recipe, state, data)
    left_out = {
        "training": (len(examples) - train.num_examples, examples.skipped),
        "validation": (len(validation) - len(fitting), validation.skipped),
    }
    return Job(recipe, folder, state, task, steps, train, fitting, some, left_out)


def first_task(recipe: Recipe, examples: Any) -> Any:
    """Return the task before its first step: a new one, or the one that `init` names."""
    if recipe.init is None:
        return tasks.TASKS.get(recipe.task).from_recipe(recipe, examples)
    task = initial_task(recipe)
    task.set_options(**task.recipe_options(recipe))
    return task


def restore_task(recipe: Recipe, checkpoint: Path) -> Any:
    """Load the task of an intact checkpoint, with the limits and search options of the recipe."""
    task = tasks.TASKS.get(recipe.task).load(checkpoint)
    task.set_options(**task.recipe_options(recipe))
    return task


def compile_steps(options: TrainingOptions, task: Any, optimizer: Any, strategy: Any) -> Steps:
    """Compile the steps of a task's model and create all variables, in the strategy's scope."""
    model = task.model
    loss = task.loss(options.label_smoothing)
    check_loss(loss)
    model.compile(optimizer=optimizer, loss=loss, auto_scale_loss=False)
    exclude_from_weight_decay(model.optimizer, model)
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
    """Raise ValueError unless `name` is "loss" or a metric of the task."""
    known = ("loss", *task.metric_names)
    if name not in known:
        raise ValueError(
            f"training.monitor={name}: unknown{did_you_mean(name, known)}"
            f" (known: {', '.join(known)})"
        )


def headline(job: Job) -> str:
    """Return one line with model, parameters, data, devices, precision and run folder."""
    start = f", from the weights of {job.recipe.init}" if job.recipe.init else ""
    if job.state.step:
        start = f", resumed from step {job.state.step}"
    return (
        f"{job.recipe.model.get('preset', type(job.task.model).__name__)}:"
        f" {job.task.model.count_params():,} parameters;"
        f" {counted(job.train.num_examples, 'training', job)},"
        f" {counted(len(job.validation), 'validation', job)};"
        f" {device_names(job.steps.strategy)}; {job.recipe.training.precision};"
        f" {job.folder}{start}"
    )


def counted(examples: int, split: str, job: Job) -> str:
    """Return the numbers of used and dropped examples of a split as text."""
    reasons = zip(job.left_out[split], ("over the length limits", "bad"), strict=True)
    summary = " and ".join(f"{count:,} {reason}" for count, reason in reasons if count)
    why = f" ({summary} dropped)" if summary else ""
    return f"{examples:,} {split} {job.task.examples}{why}"


def run(
    job: Job,
    request: StopRequest,
    callbacks: Sequence[keras.callbacks.Callback],
    draw: Draw | None = None,
) -> None:
    """Train to the end; only the chief writes to the run folder."""
    options, state, steps = job.recipe.training, job.state, job.steps
    clock = Clock(state, request, "tokens" if steps.counts_targets else "examples")
    keeper = Checkpoints if is_chief() else Follower
    saving = keeper(job.task, steps, job.folder, options, state, request)
    watchers = [clock, *measures(job), saving]
    if is_chief():
        events = Events(job.folder)
        log, progress = Log(job.folder, clock, events), Progress(options.steps, clock)
        shown = pictures(job, draw, events)
        watchers = [clock, *measures(job), *shown, log, saving, progress]
    watchers += callbacks
    try:
        with request.kept():
            TrainingLoop(steps, job.train, job.validation_batches, options, state, watchers).run()
    except Stopped:
        if state.pending is not None:
            saving.save()
        raise


def measures(job: Job) -> list[keras.callbacks.Callback]:
    """Return a list with the callback that computes the task's metrics.

    It is empty if the run monitors the loss.
    """
    options, validation = job.recipe.training, job.validation
    if options.monitor == "loss":
        return []
    some = validation.take(range(min(options.monitor_size, len(validation))))
    return [Measure(partial(job.task.evaluate, some), job.task.metric_names)]


def pictures(job: Job, draw: Draw | None, events: Events) -> list[keras.callbacks.Callback]:
    """Return a list with the callback that draws predictions of validation examples.

    It is empty without `draw` or examples.
    """
    sources = job.task.predict_inputs(job.validation)[:SHOWN]
    if draw is None or not sources:
        return []
    predict, plot = partial(job.task.predict, sources), partial(draw, job.task)
    return [Pictures(predict, plot, events, job.state)]
