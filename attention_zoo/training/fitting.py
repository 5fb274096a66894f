"""Train the task of a recipe in a run folder (`fit`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
from keras.callbacks import Callback, LambdaCallback

from attention_zoo import tasks
from attention_zoo.checkpoints.folder import CheckpointFolder
from attention_zoo.extras import check_installed
from attention_zoo.registry import did_you_mean
from attention_zoo.tasks.progress import hide_progress
from attention_zoo.training.callbacks import Checkpoints, Clock, Log
from attention_zoo.training.changes import (
    SplitReader,
    check_allowed,
    find_data_changes,
    refuse_changes,
)
from attention_zoo.training.devices import describe_devices, make_strategy, use_xla
from attention_zoo.training.faults import explain_io_errors
from attention_zoo.training.fine_tuning import freeze
from attention_zoo.training.hosts import check_same_step, explain_worker_loss, is_chief
from attention_zoo.training.layer_decay import scale_learning_rates
from attention_zoo.training.lock import hold_run_lock
from attention_zoo.training.loop import TrainingLoop
from attention_zoo.training.optimizers import build_optimizer, exclude_from_weight_decay
from attention_zoo.training.preparation import (
    SPLITS,
    make_task,
    show_data_progress,
)
from attention_zoo.training.progress import Progress
from attention_zoo.training.recipe import Recipe, TrainingOptions, load_recipe
from attention_zoo.training.recipe_sources import locate_errors
from attention_zoo.training.run_folder import (
    VARIABLES,
    RunState,
    find_moved_data,
    holds_run,
    may_be_finished,
    open_run,
    prepare_run_folder,
    read_data,
    read_variables,
)
from attention_zoo.training.step import CompiledSteps, check_loss, may_be_long
from attention_zoo.training.stopping import Stopped, StopRequest, catch_stop_signals
from attention_zoo.training.tensorboard import Events

DRAWN = 3  # validation examples

Draw = Callable[[Any, Any], Any]
"""Function `(task, result)` that returns an image `(height, width, channels)`, uint8, or None."""


@dataclass(frozen=True)
class RunResult:
    """Result of a training run.

    Args:
        folder: the run folder.
        step: number of updates done.
        best: the monitored value of the best checkpoint; None if no evaluation returned
            a finite value.
        best_step: step of the best checkpoint.
        seconds: time spent in training steps.
        diverged: whether, in the last evaluation interval, the training loss was far above that of
            the first step, or a loss was not finite.
    """

    folder: Path
    step: int
    best: float | None
    best_step: int
    seconds: float
    diverged: bool = False

    @property
    def task(self) -> Any:
        """Task of the best checkpoint, ready to predict."""
        return tasks.load(self.folder)


def fit(
    recipe: str | Path | Recipe,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    allow: Sequence[str] = (),
    draw: Draw | None = None,
    imports: Sequence[str] = (),
) -> RunResult:
    """Train the task of a recipe in its run folder, or resume the run from its last checkpoint.

    Args:
        recipe: a YAML file or a `Recipe`.
        overrides: `key.key=value` overrides of the recipe.
        callbacks: Keras callbacks, called after the built-in ones; one "epoch" is one evaluation
            interval, one "batch" one update. If one stops training, the call returns; the same
            recipe resumes the run.
        allow: keys and sections of the recipe ("training.steps", "data") that may differ from
            those that the run was started with. "data.train" and "data.validation" allow other
            examples in that split; other paths of the same examples are always allowed. The run
            folder then contains the new recipe. The keys in
            `training.changes.FIXED` (model, optimizer and others that determine a checkpoint's
            variables) can never change.
        draw: function `(task, result)` that returns an image `(height, width, channels)`, uint8, or
            None. TensorBoard shows its images of three validation examples at each evaluation.
        imports: names of modules to import in addition to the recipe's `imports`. The run folder's
            recipe contains both.

    Returns:
        The result of the run. For a finished run, nothing is trained.

    Raises:
        ValueError: the recipe or the data are invalid, the folder contains another run, the recipe
            or the data differ from those of the run, another process trains in the folder, a loss
            or a gradient is not finite, devices are missing, or a host is lost.
        OSError: the folder cannot be written. The newest and the best checkpoint are intact.
        Stopped (a subclass of `KeyboardInterrupt`): SIGINT, SIGTERM or SIGHUP was received; the
            current step was finished and a checkpoint saved.
    """
    recipe, sources = load_recipe(recipe, overrides, imports)
    if recipe.run is None:
        raise ValueError("run is missing; name the run's folder with run=FOLDER")
    folder = Path(recipe.run)
    check_allowed(recipe, allow)
    reader = SplitReader(recipe.data)
    with show_data_progress(), locate_errors(sources):
        moved = find_moved_data(folder, recipe, reader)
    allow = [*allow, *moved]
    holds_run(folder, recipe, allow)  # raises ValueError if the folder contains another run
    state = open_run(folder, recipe, allow) if may_be_finished(folder, recipe) else RunState()
    if state.finished:
        print(f"{folder}: finished at step {state.step}, nothing to do")
    else:
        strategy = make_strategy(recipe.training.devices)
        holding = hold_run_lock(folder) if is_chief() else nullcontext()
        with explain_io_errors(folder), holding, explain_worker_loss(), ExitStack() as stack:
            stack.enter_context(locate_errors(sources))
            stack.callback(keras.config.set_dtype_policy, keras.config.dtype_policy())
            keras.config.set_dtype_policy(recipe.training.precision)
            state = open_run(folder, recipe, allow)
            with show_data_progress():
                job = prepare(recipe, folder, state, strategy, allow, reader)
            reader.clear()
            print(describe_job(job), flush=True)
            with catch_stop_signals() as request:
                # Only the chief reacts to signals; the other hosts end after it.
                run(job, request if is_chief() else StopRequest(), callbacks, draw)
    return RunResult(folder, state.step, state.best, state.best_step, state.seconds, state.diverged)


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
        validation_batches: the same in batches.
        dropped: for each split, the number of examples that were dropped because they are over
            the length limits, and of bad ones (`data.skip_bad`).
    """

    recipe: Recipe
    folder: Path
    state: RunState
    task: Any
    steps: CompiledSteps
    train: Any
    validation: Any
    validation_batches: Any
    dropped: dict[str, tuple[int, int]]


def prepare(
    recipe: Recipe,
    folder: Path,
    state: RunState,
    strategy: Any,
    allow: Sequence[str] = (),
    reader: SplitReader | None = None,
) -> Job:
    """Read the data, build or restore the task and, if that succeeds, prepare the folder."""
    keras.utils.set_random_seed(recipe.seed)
    reader = reader or SplitReader(recipe.data)
    examples, validation = map(reader.read, SPLITS)
    checkpoint = None
    if not is_chief():  # the chief, which needs them last, finds them in the cache
        reader.read_fingerprints(SPLITS)
    if state.step:
        changes = find_data_changes(read_data(folder), reader.read_fingerprints(SPLITS))
        refuse_changes(folder, changes, allow)
        checkpoint = CheckpointFolder(folder / "checkpoints").get_path(state.step)
    with strategy.scope():
        optimizer = build_optimizer(recipe.training)
        task = make_task(recipe, examples, checkpoint)
        freeze(task.model, recipe.training.frozen)
        check_monitor(recipe.training.monitor, task)
        train = make_batches(task, examples, recipe)
        steps = compile_steps(recipe.training, task, optimizer, strategy, may_be_long(train))
    validation_batches = make_batches(task, validation, recipe)
    fitting = task.filter_by_length(validation)
    if checkpoint is not None:
        read_variables(checkpoint / VARIABLES, steps.variables)
        steps.averages.swap()
    check_same_step(strategy, state.step)
    if is_chief():
        prepare_run_folder(folder, recipe, state, reader.read_fingerprints(SPLITS))
    dropped = {
        "training": (len(examples) - train.num_examples, examples.skipped),
        "validation": (len(validation) - len(fitting), validation.skipped),
    }
    return Job(recipe, folder, state, task, steps, train, fitting, validation_batches, dropped)


def make_batches(task: Any, examples: Any, recipe: Recipe) -> Any:
    """Return batches of `batch_size` examples, or of at most `batch_tokens` tokens."""
    options = recipe.training
    method = "make_feature_batches" if options.cache_features else "make_batches"
    if options.cache_features and not hasattr(task, method):
        raise ValueError(
            f"training.cache_features: task {recipe.task} has no image encoder; remove the option"
        )
    batches = getattr(task, method)(examples, options.batch_size, recipe.seed)
    if options.batch_tokens is None:
        return batches
    if not hasattr(batches, "limit_tokens"):
        raise ValueError(
            f"training.batch_tokens: {type(batches).__name__} of task {recipe.task} has no"
            " limit_tokens; define it, or use training.batch_size"
        )
    try:
        return batches.limit_tokens(options.batch_tokens)
    except ValueError as error:
        raise ValueError(f"{examples.origin}: training.batch_tokens: {error}") from None


def compile_steps(
    options: TrainingOptions, task: Any, optimizer: Any, strategy: Any, expect_long: bool
) -> CompiledSteps:
    """Compile the steps of a task's model and create all variables, in the strategy's scope."""
    model = task.model
    loss = task.make_loss(options.label_smoothing)
    check_loss(loss)
    model.compile(optimizer=optimizer, loss=loss, auto_scale_loss=False)
    exclude_from_weight_decay(model.optimizer, model)
    scale_learning_rates(model.optimizer, model, options.layer_decay)
    model.optimizer.build(model.trainable_variables)
    jit = use_xla(options.jit, strategy)
    return CompiledSteps(
        model, strategy, options.accumulate, options.clip_norm, options.ema, jit, expect_long
    )


def check_monitor(name: str, task: Any) -> None:
    """Raise ValueError unless `name` is "loss" or a metric that the task can compute."""
    known = ("loss", *task.metric_names)
    if name not in known:
        raise ValueError(
            f"training.monitor={name}: unknown{did_you_mean(name, known)}"
            f" (known: {', '.join(known)})"
        )
    if name != "loss":
        check_installed(task.metric_modules)


def describe_job(job: Job) -> str:
    """Return one line with model, parameters, data, devices, precision and run folder."""
    start = f", from the weights of {job.recipe.init}" if job.recipe.init else ""
    if job.state.step:
        start = f", resumed from step {job.state.step}"
    return (
        f"{job.recipe.model.get('preset', type(job.task.model).__name__)}:"
        f" {job.task.model.count_params():,} parameters;{describe_vocabularies(job.task)}"
        f" {describe_split(job.train.num_examples, 'training', job)},"
        f" {describe_split(len(job.validation), 'validation', job)};"
        f" {describe_devices(job.steps.strategy)}; {job.recipe.training.precision};"
        f" {job.folder}{start}"
    )


def describe_vocabularies(task: Any) -> str:
    """Return the sizes of the task's vocabularies as text; empty for a task without text."""
    sizes = {
        name.removesuffix("tokenizer").rstrip("_"): tokenizer.vocabulary_size
        for name, tokenizer in task.tokenizers.items()
    }
    texts = [f"{size:,} {name}".strip() for name, size in sizes.items()]
    return f" vocabulary {' and '.join(texts)} tokens;" if texts else ""


def describe_split(examples: int, split: str, job: Job) -> str:
    """Return the numbers of used and dropped examples of a split as text."""
    reasons = zip(job.dropped[split], ("over the length limits", "bad"), strict=True)
    summary = " and ".join(f"{count:,} {reason}" for count, reason in reasons if count)
    why = f" ({summary} dropped)" if summary else ""
    return f"{examples:,} {split} {job.task.example_noun}{why}"


def run(job: Job, request: StopRequest, callbacks: Sequence[Callback], draw: Draw | None) -> None:
    """Train to the end; only the chief writes to the run folder."""
    options, state, steps = job.recipe.training, job.state, job.steps
    clock = Clock(state, request, steps.unit)
    saving = Checkpoints(job.task, steps, job.folder, options, clock)
    watchers = [clock, *make_metric_callbacks(job), saving]
    progress_display: Any = nullcontext()
    if is_chief():
        events = Events(job.folder)
        log, progress = Log(job.folder, clock, events), Progress(options.steps, clock)
        progress_display = progress.refresh_periodically()
        draw = draw if events.is_available else None
        watchers[-1:] = [*make_image_callbacks(job, draw, events), log, saving, progress]
    watchers += callbacks
    try:
        with progress_display, request.reraise():
            TrainingLoop(steps, job.train, job.validation_batches, options, state, watchers).run()
    except Stopped:
        if state.pending is not None:
            saving.save()
        raise


def make_metric_callbacks(job: Job) -> list[Callback]:
    """Return the callback that computes the task's metrics, if the run monitors one of them."""
    options, validation = job.recipe.training, job.validation
    if options.monitor == "loss":
        return []
    monitored = job.task.select_monitored(validation, options.monitor_size)

    def measure(epoch: int, logs: dict[str, Any]) -> None:
        metrics = dict.fromkeys(job.task.metric_names, math.nan)
        if math.isfinite(logs["val_loss"]):  # otherwise, `evaluate` raises ValueError
            with hide_progress():
                metrics = job.task.evaluate(monitored)
        logs |= {f"val_{name}": float(metrics[name]) for name in job.task.metric_names}

    return [LambdaCallback(on_epoch_end=measure)]


def make_image_callbacks(job: Job, draw: Draw | None, events: Events) -> list[Callback]:
    """Return the callback that draws results of validation examples, if `draw` is given."""
    if draw is None:
        return []
    drawn = job.validation.take(range(min(DRAWN, len(job.validation))))
    sources = list(job.task.get_predict_inputs(drawn))
    if not sources:
        return []

    def draw_results(epoch: int, logs: dict[str, Any]) -> None:
        with hide_progress():
            results = job.task.predict(sources, on_error="skip")
        for number, result in enumerate(results, 1):
            pixels = draw(job.task, result) if result.ok else None
            if pixels is not None:
                events.write_image(job.state.step, f"attention/{number}", pixels)

    return [LambdaCallback(on_epoch_end=draw_results)]
