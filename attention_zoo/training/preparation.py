"""Preparation of a recipe's data: before training, or in its cache alone (`prepare_data`)."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from attention_zoo import tasks
from attention_zoo.data.progress import show_progress
from attention_zoo.data_cache import get_corpus_cache
from attention_zoo.tasks.encoding import MIN_SHARD
from attention_zoo.training.changes import SplitReader
from attention_zoo.training.fine_tuning import load_initial_task
from attention_zoo.training.hosts import is_chief
from attention_zoo.training.recipe import Recipe, override_recipe, read_recipe, read_sources
from attention_zoo.training.recipe_sources import RecipeSource, locate_errors
from attention_zoo.user_modules import import_user_modules, name_missing_modules
from attention_zoo.zoo import resolve_recipe

LOGGER = logging.getLogger(__name__)
SPLITS = ("train", "validation")


def prepare_data(
    recipe: str | Path,
    overrides: Sequence[str] = (),
    imports: Sequence[str] = (),
    processes: int = 1,
) -> dict[str, int]:
    """Prepare the data of a recipe in its cache, without training.

    Examples are parsed, tokenizers are trained and token ids are encoded. Training then starts at
    once, also on another machine that has the files and the cache.

    Args:
        recipe: a YAML file or the name of a recipe of the zoo.
        overrides: `key.key=value` overrides of the recipe.
        imports: names of modules to import in addition to the recipe's `imports`.
        processes: number of processes that share the work. Fewer are used for a corpus with fewer
            than `tasks.encoding.MIN_SHARD` examples for each.

    Returns:
        The number of examples of each split.

    Raises:
        ValueError: the recipe or the data are invalid, or the recipe's data have no cache.
    """
    words = [str(recipe), *overrides, *(f"--import={name}" for name in imports)]
    loaded, sources = load_recipe(recipe, overrides, imports)
    reader = SplitReader(loaded.data)
    with locate_errors(sources), show_data_progress():
        examples = reader.read("train")
        if get_corpus_cache(examples) is None:
            raise ValueError(
                f"{examples.origin}: its data has no cache to prepare; set data.cache to a folder"
                " for a corpus of files, a generated one needs no preparation"
            )
        with start_helpers(words, min(processes, len(examples) // MIN_SHARD) - 1):
            task = make_task(loaded, examples, None)
            for split in SPLITS:
                task.make_batches(reader.read(split), loaded.training.batch_size, loaded.seed)
            reader.read_fingerprints(SPLITS)
    return {split: len(reader.read(split)) for split in SPLITS}


@contextmanager
def start_helpers(words: Sequence[str], count: int) -> Iterator[None]:
    """Run the command `prepare` in other processes, which take over a part of the work.

    Args:
        words: the command's arguments.
        count: number of processes.
    """
    command = [sys.executable, "-m", "attention_zoo", "prepare", *words, "--processes=1"]
    helpers = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        yield
        for helper in helpers:
            _, errors = helper.communicate()
            if helper.returncode:  # this process has done its part
                LOGGER.warning("a helper process failed: %s", errors.strip().rpartition("\n")[2])
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()


def load_recipe(
    recipe: str | Path | Recipe, overrides: Sequence[str], imports: Sequence[str]
) -> tuple[Recipe, list[RecipeSource]]:
    """Return a recipe with overrides and imported modules, and the sources of its keys."""
    sources: list[RecipeSource] = []
    import_user_modules(imports)
    if isinstance(recipe, Recipe):
        recipe = override_recipe(recipe, overrides)
        import_user_modules(recipe.imports)
    else:
        recipe = resolve_recipe(recipe)
        sources = read_sources(recipe, overrides)
        recipe = read_recipe(recipe, overrides, import_modules=True)
    recipe.imports = [*dict.fromkeys([*recipe.imports, *imports])]
    return recipe, sources


def show_data_progress() -> AbstractContextManager[None]:
    """Return a context in which the chief prints the progress of reading data."""
    return show_progress(sys.stdout) if is_chief() else nullcontext()


def make_task(recipe: Recipe, examples: Any, checkpoint: Path | None) -> Any:
    """Return the task of a checkpoint; without one, that of `init`, or else a new one."""
    task_class = tasks.TASKS.get(recipe.task)
    if checkpoint is None and recipe.init is None:
        return task_class.from_recipe(recipe, examples)
    if checkpoint is None:
        task = load_initial_task(recipe)
    else:
        with name_missing_modules(checkpoint):
            task = task_class.load(checkpoint)
    task.set_options(**task.recipe_options(recipe))
    return task
