"""Comparison of runs: the recipe keys that differ, and the training results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attention_zoo import zoo
from attention_zoo.checkpoints.folder import CheckpointFolder, find_task_folder
from attention_zoo.files import explain_outdated, read_json
from attention_zoo.hub import resolve_folder
from attention_zoo.models.weights_file import WEIGHTS, count_saved_parameters
from attention_zoo.training.changes import PATHS, flatten_recipe, is_same_path
from attention_zoo.training.evaluation import RESULTS_VERSION
from attention_zoo.training.recipe import Recipe, read_recipe
from attention_zoo.training.run_folder import RunState, read_state
from attention_zoo.user_modules import name_missing_modules


@dataclass(frozen=True)
class RunSummary:
    """Summary of a run.

    Args:
        run: the run folder or the name of the zoo entry, as given.
        task: name of the task.
        parameters: number of parameters; None for a model without a weights file.
        monitor: name of the value that selects the best checkpoint; "loss" is the validation loss.
        best: the monitored value of the best checkpoint; None without a finite value, and for zoo
            entries and averaged checkpoints, which contain no training state.
        best_step: step of the best checkpoint, or None.
        step: number of updates done, or None.
        seconds: time spent in training steps, or None.
        evaluation: split, and the metrics with one value, of the first evaluation in results.json.
        recipe: the recipe's values that differ from those of another run, by dotted key. A key that
            the run's recipe does not have is missing.
    """

    run: str
    task: str
    parameters: int | None
    monitor: str
    best: float | None
    best_step: int | None
    step: int | None
    seconds: float | None
    evaluation: dict[str, Any] | None
    recipe: dict[str, Any]


def compare_runs(runs: Sequence[str | Path]) -> list[RunSummary]:
    """Return a summary of each run, with the recipe keys that differ between them.

    Args:
        runs: at least two run folders or names of zoo entries, of one task.

    Raises:
        ValueError: fewer than two runs, a run that is given twice, a folder that holds no run or no
            checkpoint, a damaged file, or runs of different tasks.
    """
    if len(runs) < 2:
        raise ValueError(f"compare needs at least two runs, got {len(runs)}")
    folders = [resolve_folder(run) for run in runs]
    resolved = [folder.resolve() for folder in folders]
    for number, folder in enumerate(resolved):
        if folder in resolved[:number]:
            raise ValueError(f"runs must be distinct, got {runs[number]} twice. Remove one.")
    task_folders = [find_task_folder(folder) for folder in folders]
    recipes = [_read_recipe_of(folder) for folder in folders]
    tasks = {recipe.task: run for run, recipe in zip(runs, recipes, strict=True)}
    if len(tasks) > 1:
        names = ", ".join(f"{task} ({run})" for task, run in tasks.items())
        raise ValueError(f"runs must be of one task to be compared, got {names}")
    differing = _find_differences(recipes)
    columns = map(str, runs), folders, task_folders, recipes, differing
    return [*map(_summarize, *columns)]


def _read_recipe_of(folder: Path) -> Recipe:
    path = zoo.find_recipe_of(folder)
    if not path.is_file():
        raise ValueError(f"{folder}: has no recipe.yaml to compare; pass a run folder")
    with name_missing_modules(folder):
        return read_recipe(path)


def _find_differences(recipes: Sequence[Recipe]) -> list[dict[str, Any]]:
    """Return, for each recipe, its values of the keys that differ; the key `run` is ignored."""
    contents = [flatten_recipe(recipe) for recipe in recipes]
    keys = dict.fromkeys(key for content in contents for key in content)
    differing = [key for key in keys if key != "run" and not _is_same(key, contents)]
    return [{key: content[key] for key in differing if key in content} for content in contents]


def _is_same(key: str, contents: Sequence[dict[str, Any]]) -> bool:
    if not all(key in content for content in contents):
        return False
    first, *others = (content[key] for content in contents)
    if key in PATHS:
        return all(is_same_path(first, other) for other in others)
    return all(first == other for other in others)


def _summarize(
    run: str, folder: Path, task_folder: Path, recipe: Recipe, differing: dict[str, Any]
) -> RunSummary:
    results, state = _read_results(folder), _read_newest_state(folder)
    weights = task_folder / "model" / WEIGHTS
    evaluation = None
    with explain_outdated(folder / "results.json"):
        if results.get("evaluations"):
            first = results["evaluations"][0]
            values = {k: v for k, v in first["metrics"].items() if isinstance(v, float)}
            evaluation = {"split": first["split"], "metrics": values}
    return RunSummary(
        run=run,
        task=recipe.task,
        parameters=count_saved_parameters(weights) if weights.is_file() else None,
        monitor=recipe.training.monitor,
        best=None if state is None else state.best,
        best_step=None if state is None or state.best is None else state.best_step,
        step=results.get("step") if state is None else state.step,
        seconds=results.get("training_seconds") if state is None else state.seconds,
        evaluation=evaluation,
        recipe=differing,
    )


def _read_newest_state(folder: Path) -> RunState | None:
    newest = CheckpointFolder(folder / "checkpoints").find_newest()
    return None if newest is None else read_state(newest)


def _read_results(folder: Path) -> dict[str, Any]:
    path = folder / "results.json"
    return read_json(path, RESULTS_VERSION, "remove it") if path.is_file() else {}
