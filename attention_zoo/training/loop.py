"""The one fit: from a recipe to a trained task in a run folder."""

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
from attention_zoo.training.building import build_task, load_task, with_options
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
from attention_zoo.training.intervals import TrainingLoop
from attention_zoo.training.lock import hold_run_lock
from attention_zoo.training.optimizers import build_optimizer
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
            evaluation interval, one "batch" one update. One that stops training ends the call; the
            same recipe goes on.
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
            which recipe or data have changed, or that another process trains in, a loss that is
            not finite, devices that are not there, or a host that is gone.
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
            with stop_requests() as request:  # the chief heeds it; the others end when it has
                run(job, request if is_chief() else StopRequest(), callbacks, draw)
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
        validation: the validation split, without what is over the length limits.
        validation_batches: the same in batches.
        left_out: examples of either split, by name, that are over the length limits, and those
            that are bad (`data.skip_bad`).
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
    """Keras's dtype policy for the layers built inside."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def prepare(
    recipe: Recipe, folder: Path, state: RunState, strategy: Any, allow: Sequence[str] = ()
) -> Job:
    """Read the data, build or restore the task, and claim the folder when all of it works."""
    keras.utils.set_random_seed(recipe.seed)
    examples = recipe.data.read("train")
    validation = recipe.data.read("validation")
    data = {"train": fingerprint(examples), "validation": fingerprint(validation)}
    if state.step:
        refuse_changes(folder, data_changes(read_data(folder), data), allow)
    checkpoint = CheckpointFolder(folder / "checkpoints").at(state.step)
    with strategy.scope():
        optimizer = build_optimizer(recipe.training)
        task = load_task(recipe, checkpoint) if state.step else first_task(recipe, examples)
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
        "training": (len(examples) - of_corpus(train), getattr(examples, "skipped", 0)),
        "validation": (len(validation) - len(fitting), getattr(validation, "skipped", 0)),
    }
    return Job(recipe, folder, state, task, steps, train, fitting, some, left_out)


def first_task(recipe: Recipe, examples: Any) -> Any:
    """The task before its first step."""
    if recipe.init is None:
        return build_task(recipe, examples)
    return with_options(initial_task(recipe), recipe)


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
    start = f", from the weights of {job.recipe.init}" if job.recipe.init else ""
    if job.state.step:
        start = f", continued from step {job.state.step}"
    return (
        f"{job.recipe.model.get('preset', type(job.task.model).__name__)}:"
        f" {job.task.model.count_params():,} parameters;"
        f" {counted(of_corpus(job.train), 'training', job)},"
        f" {counted(len(job.validation), 'validation', job)};"
        f" {device_names(job.steps.strategy)}; {job.recipe.training.precision};"
        f" {job.folder}{start}"
    )


def of_corpus(batches: Any) -> int:
    """How many examples of a corpus are in batches: one to a row, unless they say else."""
    return int(getattr(batches, "of_corpus", len(batches)))


def counted(examples: int, split: str, job: Job) -> str:
    """How many examples of a split are used, and how many are not."""
    reasons = zip(job.left_out[split], ("over the length limits", "bad"), strict=True)
    told = " and ".join(f"{count:,} {reason}" for count, reason in reasons if count)
    why = f" ({told} left out)" if told else ""
    return f"{examples:,} {split} {job.recipe.data.examples}{why}"


def run(
    job: Job,
    request: StopRequest,
    callbacks: Sequence[keras.callbacks.Callback],
    draw: Draw | None = None,
) -> None:
    """Train to the end, with what is written down by the host that keeps the run folder."""
    options, state, steps = job.recipe.training, job.state, job.steps
    clock = Clock(state, request, "tokens" if hasattr(steps.model.loss, "count") else "examples")
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
    """What measures the task's own metrics, if the run is judged by one."""
    options, validation = job.recipe.training, job.validation
    if options.monitor == "loss":
        return []
    some = validation.take(range(min(options.monitor_size, len(validation))))
    return [Measure(partial(job.task.evaluate, some), job.task.metric_names)]


def pictures(job: Job, draw: Draw | None, events: Events) -> list[keras.callbacks.Callback]:
    """What draws the answers to a few validation examples, if that is asked for."""
    texts = getattr(job.validation, "sources", [])[:SHOWN]
    if draw is None or not texts:
        return []
    return [Pictures(partial(job.task.predict, texts), draw, events, job.state)]
