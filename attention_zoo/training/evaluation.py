"""Evaluation of a run on a split, and the file of results."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import attention_zoo
from attention_zoo import tasks
from attention_zoo.checkpoints import STATE
from attention_zoo.files import replace_file
from attention_zoo.training.recipe import Recipe, read_recipe

SECTIONS = ("data", "search")
PACKAGES = ("keras", "tensorflow", "numpy", "tokenizers", "sacrebleu", "rouge-score")


def evaluate(folder: str | Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Evaluate a run's best checkpoint on a split and write the metrics to results.json.

    Args:
        folder: a run folder, or an entry of the zoo with its recipe.
        overrides: `data.split=validation`, `search.beam_width=5` and the like.

    Returns:
        `split`, `data`, `search` and `metrics` of this evaluation.

    Raises:
        ValueError: the folder holds no run, an override is not in `data` or `search`, or the data
            are invalid.
    """
    folder = Path(folder)
    task = tasks.load(folder)
    page = folder / "recipe.yaml"
    if not page.is_file():
        raise ValueError(
            f"{folder}: has no recipe.yaml, which names the data to evaluate on; pass a run folder"
        )
    for text in overrides:
        if text.partition(".")[0] not in SECTIONS:
            raise ValueError(f"{text}: evaluate takes data.* and search.* options only")
    recipe = read_recipe(page, overrides)
    task.set_options(**task.recipe_options(recipe))
    examples = recipe.data.read(recipe.data.split)
    search = asdict(recipe.search)
    entry = {
        "split": recipe.data.split,
        "data": examples.origin,
        "search": search,
        "metrics": task.evaluate(examples, **search),
    }
    write_results(folder, recipe, task, entry)
    return entry


def write_results(folder: Path, recipe: Recipe, task: Any, entry: dict[str, Any]) -> None:
    """Write an evaluation to `results.json`.

    It replaces an earlier one with the same data, split and search options. Evaluations of another
    step are removed.
    """
    path = folder / "results.json"
    head = describe_run(folder, recipe, task)
    kept = []
    if path.is_file():
        previous = json.loads(path.read_text(encoding="utf-8"))
        if previous.get("step") == head["step"]:
            kept = [old for old in previous["evaluations"] if _get_key(old) != _get_key(entry)]
    content = {**head, "evaluations": [*kept, entry]}
    replace_file(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def describe_run(folder: Path, recipe: Recipe, task: Any) -> dict[str, Any]:
    """Return the task, model, training, commit, machine and versions of a run."""
    path = tasks.find_task_folder(folder) / STATE
    state = json.loads(path.read_text("utf-8")) if path.is_file() else {}
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
