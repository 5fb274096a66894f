"""Preparation of a recipe's data: before training, or in its cache alone (`prepare_data`)."""

from __future__ import annotations

import _thread
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryFile
from threading import Thread
from typing import Any

from attention_zoo import tasks
from attention_zoo.data.progress import show_progress
from attention_zoo.data_cache import get_corpus_cache, is_builtin
from attention_zoo.ops import whole_number
from attention_zoo.tasks.encoding import MAX_SHARDS
from attention_zoo.training.changes import SplitReader
from attention_zoo.training.fine_tuning import has_public_backbone, load_initial_task
from attention_zoo.training.hosts import is_chief
from attention_zoo.training.recipe import Recipe, load_recipe
from attention_zoo.training.recipe_sources import locate_errors
from attention_zoo.user_modules import name_missing_modules
from attention_zoo.zoo import resolve_recipe

SPLITS = ("train", "validation")

EXAMPLES_PER_PROCESS = 250_000
"""Number of examples from which another process is worth its start, about ten seconds."""

SECONDS_TO_STOP = 10


def prepare_data(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    imports: Sequence[str] = (),
    processes: int = 1,
) -> dict[str, int]:
    """Prepare the data of a recipe in its cache, without training.

    Examples are parsed, tokenizers are trained and token ids are encoded. Training then reads them
    from the cache.

    Args:
        recipe: a YAML file or the name of a recipe of the zoo.
        overrides: `key.key=value` overrides of the recipe.
        imports: names of modules to import in addition to the recipe's `imports`.
        processes: maximum number of processes that share the work, one for at least
            `EXAMPLES_PER_PROCESS` examples. The others use no GPU.

    Returns:
        The number of examples of each split.

    Raises:
        ValueError: the recipe or the data are invalid, or the training data is not cached.
    """
    processes = whole_number("processes", processes)
    path = os.path.abspath(resolve_recipe(recipe))
    parsed, sources = load_recipe(path, overrides, imports)
    reader = SplitReader(parsed.data)
    with locate_errors(sources), show_data_progress():
        examples = reader.read("train")
        if get_corpus_cache(examples) is None:
            raise ValueError(
                f"{examples.origin}: the training data is not cached; set data.cache=true or a"
                " folder. Only corpora of files have a cache, not generated ones, TensorFlow"
                " datasets and corpora of your own classes."
            )
        arguments = [path, *overrides, *(f"--import={name}" for name in parsed.imports)]
        num_helpers = min(processes, len(examples) // EXAMPLES_PER_PROCESS, MAX_SHARDS) - 1
        # Token ids of a user's task are not cached, see `load_or_encode`.
        is_shared = is_builtin(tasks.TASKS.get(parsed.task))
        with run_helpers(arguments, num_helpers if is_shared else 0):
            if not is_chief():  # the hosts of a training share the work too, see `fitting.prepare`
                reader.read_fingerprints(SPLITS)
            task = make_task(parsed, examples, None)
            for split in SPLITS:
                task.make_batches(reader.read(split), parsed.training.batch_size, parsed.seed)
            reader.read_fingerprints(SPLITS)
    return {split: len(reader.read(split)) for split in SPLITS}


@contextmanager
def run_helpers(arguments: Sequence[str], count: int) -> Iterator[None]:
    """Run the command `prepare` in other processes, which take over a part of the work.

    A helper stops when its standard input is closed, as it is if this process is killed.

    Args:
        arguments: arguments of the command.
        count: number of processes.
    """
    command = [sys.executable, "-m", "attention_zoo", "prepare", *arguments, "--helper"]
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "-1",
        "RAYON_NUM_THREADS": "1",
        "PYTHONSAFEPATH": "1",  # `-m` adds the current folder
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    with ExitStack() as stack:
        helpers = []
        for _ in range(count):
            errors = stack.enter_context(TemporaryFile())
            helper = subprocess.Popen(
                command, env=environment, stdin=PIPE, stdout=DEVNULL, stderr=errors
            )
            stack.callback(_stop, helper)
            helpers.append((helper, errors))
        yield
        for helper, errors in helpers:
            if helper.wait():  # this process has done its part
                errors.seek(0)
                lines = errors.read().decode(errors="replace").splitlines()
                reason = lines[-1] if lines else f"exit status {helper.returncode}"
                warnings.warn(f"a process that helps to prepare failed: {reason}", stacklevel=2)


def _stop(helper: subprocess.Popen[bytes]) -> None:
    """Stop a helper, which removes the entry that it is writing."""
    assert helper.stdin is not None
    helper.stdin.close()
    try:
        helper.wait(SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        helper.kill()
        helper.wait()


def stop_with_parent() -> None:
    """Interrupt this helper process when its standard input is closed."""

    def wait_for_end() -> None:
        os.read(sys.stdin.fileno(), 1)  # unlike `sys.stdin.read`, it takes no lock
        _thread.interrupt_main()
        time.sleep(SECONDS_TO_STOP)
        os._exit(1)

    Thread(target=wait_for_end, daemon=True).start()


def show_data_progress() -> AbstractContextManager[None]:
    """Return a context in which the chief prints the progress of reading data."""
    return show_progress(sys.stdout) if is_chief() else nullcontext()


def make_task(recipe: Recipe, examples: Any, checkpoint: Path | None) -> Any:
    """Return the task of a checkpoint; without one, that of `init`, or else a new one.

    A new one may have the backbone of a public checkpoint, its `init`.
    """
    task_class = tasks.TASKS.get(recipe.task)
    if checkpoint is None and (recipe.init is None or has_public_backbone(recipe)):
        return task_class.from_recipe(recipe, examples)
    if checkpoint is None:
        task = load_initial_task(recipe)
        task.adapt_to_recipe(recipe, examples)
    else:
        with name_missing_modules(checkpoint):
            task = task_class.load(checkpoint)
    task.set_options(**task.recipe_options(recipe))
    return task
