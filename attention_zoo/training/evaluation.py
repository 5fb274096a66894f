"""Evaluation of a run on a split, and the file of results."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import attention_zoo
from attention_zoo import tasks, zoo
from attention_zoo.checkpoints.folder import STATE, STATE_VERSION
from attention_zoo.extras import check_installed
from attention_zoo.files import explain_outdated, read_json, replace_file
from attention_zoo.hub import resolve_folder
from attention_zoo.training.recipe import Recipe, read_recipe
from attention_zoo.user_modules import name_missing_modules

SECTIONS = ("data", "search")
RESULTS_VERSION = 1
PACKAGES = ("keras", "tensorflow", "numpy", "tokenizers", "sacrebleu", "rouge-score")


def evaluate(
    folder: str | Path,
    overrides: Sequence[str] = (),
    report: Callable[[Any, dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Evaluate a run's best checkpoint on a split and write the metrics to results.json.

    Args:
        folder: a run folder, or the name of an entry of the zoo, whose results.json is not changed.
        overrides: `data.split=validation`, `search.beam_width=5` and the like.
        report: function `(task, result)` that is called with the returned value before it is
            written to results.json.

    Returns:
        `split`, `data`, `overrides`, `search` and `metrics` of this evaluation.

    Raises:
        ValueError: the folder holds no run, an override is not in `data` or `search`, or the data
            are invalid, or results.json is damaged.
        OSError: results.json cannot be written.
    """
    folder = resolve_folder(folder)
    task = tasks.load(folder)
    path = zoo.find_recipe_of(folder)
    if not path.is_file():
        raise ValueError(
            f"{folder}: has no recipe.yaml, which names the data to evaluate on; pass a run folder"
        )
    for text in overrides:
        if text.partition(".")[0] not in SECTIONS:
            raise ValueError(f"{text}: evaluate takes data.* and search.* options only")
    keys = [text.partition("=")[0] for text in overrides]
    options = [key.removeprefix("search.") for key in keys if key.startswith("search.")]
    task.refuse_unused_options(options, in_evaluate=True)
    check_installed(task.metric_modules)
    with name_missing_modules(folder):
        recipe = read_recipe(path, overrides)
    task.set_options(**task.recipe_options(recipe))
    examples = recipe.data.read(recipe.data.split)
    entry = {
        "split": recipe.data.split,
        "data": examples.origin,
        "overrides": list(overrides),
        "search": asdict(recipe.search),
        "metrics": task.evaluate(examples),
    }
    if report is not None:
        report(task, entry)
    if not zoo.is_entry_folder(folder):
        write_results(folder, recipe, task, entry)
    return entry


def write_results(folder: Path, recipe: Recipe, task: Any, entry: dict[str, Any]) -> None:
    """Write an evaluation to `results.json`.

    It replaces an earlier one with the same data, split and search options. Evaluations of another
    step are removed.

    Raises:
        ValueError: the file is damaged or outdated.
        OSError: the file cannot be written.
    """
    path = folder / "results.json"
    head = describe_run(folder, recipe, task)
    kept = []
    if path.is_file():
        fix = "this evaluation was not written to it; remove it"
        previous = read_json(path, RESULTS_VERSION, fix)
        with explain_outdated(path, fix):
            if previous.get("step") == head["step"]:
                kept = [old for old in previous["evaluations"] if _get_key(old) != _get_key(entry)]
    content = {"format_version": RESULTS_VERSION, **head, "evaluations": [*kept, entry]}
    try:
        replace_file(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        reason = f"{error.strerror}, so this evaluation was not written to it"
        raise OSError(error.errno, reason, str(path)) from error


def describe_run(folder: Path, recipe: Recipe, task: Any) -> dict[str, Any]:
    """Return the task, model, training, commit, machine and versions of a run."""
    path = tasks.find_task_folder(folder) / STATE
    state = read_json(path, STATE_VERSION, "use another checkpoint") if path.is_file() else {}
    return {
        "task": recipe.task,
        "preset": recipe.model.get("preset"),
        "model": recipe.model,
        "init": recipe.init,
        "parameters": task.model.count_params(),
        "seed": recipe.seed,
        "monitor": recipe.training.monitor,
        "step": state.get("step"),
        "training_seconds": state.get("seconds"),
        "commit": get_commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": get_versions(),
    }


def get_versions() -> dict[str, str]:
    """Return the versions of Python, this package and the packages that affect metrics."""
    found = {"python": platform.python_version(), "attention_zoo": attention_zoo.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def get_commit() -> str | None:
    """Return the git commit of this package's source tree; None outside of a git tree."""
    root = Path(attention_zoo.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _get_key(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry["data"], entry["split"], json.dumps(entry["search"], sort_keys=True)
