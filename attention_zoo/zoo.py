"""The model zoo: presets, recipes and trained entries by name.

In a source checkout or an editable install, recipes are in `training/` and entries in `models/` at
the root of the repository. A wheel of attention-zoo contains the recipes, and the package
attention-zoo-models the entries with weights. Nothing here imports Keras.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attention_zoo.registry import did_you_mean

PACKAGE = Path(__file__).resolve().parent
MODELS_PACKAGE = "attention_zoo_models"
RECIPE_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Listing:
    """A row of the index of the zoo.

    Args:
        name: the name of a preset, or of a recipe and the entry trained with it.
        kind: "preset", "recipe" or "entry".
        task: name of the task.
        parameters: number of parameters; that of a preset is for vocabularies of 8,000 tokens. None
            for a recipe.
        metric: the headline metric of an entry, the first of its task; None for other kinds.
        value: its value in the first evaluation of the entry.
        weights: whether the zoo has weights of an entry; false for other kinds.
    """

    name: str
    kind: str
    task: str
    parameters: int | None = None
    metric: str | None = None
    value: float | None = None
    weights: bool = False


@functools.cache
def read_index() -> tuple[Listing, ...]:
    """Return all presets, recipes and entries."""
    rows: list[dict[str, Any]] = json.loads((PACKAGE / "index.json").read_text(encoding="utf-8"))
    return tuple(Listing(**row) for row in rows)


def find_listing(name: str, kind: str) -> Listing | None:
    """Return the preset, recipe or entry of this name; None if there is none."""
    return next((row for row in read_index() if (row.name, row.kind) == (name, kind)), None)


def is_name(text: object) -> bool:
    """Return whether a text is a name: it has no path separator, unlike `./folder`."""
    if not isinstance(text, str) or not text or text.startswith("~") or text in (".", ".."):
        return False
    return not any(separator in text for separator in ("/", os.sep, os.altsep) if separator)


def find_entry(name: str) -> Path | None:
    """Return the folder of an entry with weights; None if no entry has this name.

    Raises:
        ValueError: the entry has no weights, or they are not installed.
    """
    listing = find_listing(name, "entry")
    if listing is None:
        return None
    if not listing.weights:
        raise ValueError(
            f"{name}: the zoo has no weights of this entry; train it with `attention-zoo train"
            f" {name}`"
        )
    folders = [root / listing.task / name for root in _find_entries()]
    folder = next(filter(Path.is_dir, folders), None)
    if folder is None:
        raise ValueError(
            f"{name}: its weights are not installed; run `pip install attention-zoo-models`"
        )
    return folder


def find_recipe(name: str) -> Path:
    """Return the path of a recipe's YAML file; raise ValueError for an unknown name."""
    listing = find_listing(name, "recipe")
    if listing is None:
        known = (row.name for row in read_index() if row.kind == "recipe")
        raise ValueError(
            f"{name}: no such file, and no recipe of the zoo has this name"
            f"{did_you_mean(name, known)} (`attention-zoo list` prints all recipes)"
        )
    installed = PACKAGE / "recipes"
    root = installed if installed.is_dir() else PACKAGE.parent / "training"
    return root / listing.task / f"{name}.yaml"


def find_recipe_of(folder: Path) -> Path:
    """Return the path of the recipe of a run folder, which may not exist, or of an entry."""
    return find_recipe(folder.name) if is_entry_folder(folder) else folder / "recipe.yaml"


def resolve_entry(name: str) -> Path:
    """Return the folder of an entry, or the local folder of this name if there is no such entry.

    Warns if both exist.

    Raises:
        ValueError: neither exists, or the entry has no weights here.
    """
    local = Path(name)
    try:
        entry = find_entry(name)
    except ValueError as error:
        if local.exists():
            raise ValueError(f"{error}; write ./{name} for the local path") from None
        raise
    if entry is None and not local.exists():
        if find_listing(name, "recipe") is not None:
            raise ValueError(
                f"{name}: the zoo has its recipe but no weights; train it with `attention-zoo train"
                f" {name}`"
            )
        known = (row.name for row in read_index() if row.kind == "entry")
        raise ValueError(
            f"{name}: no such folder, and no entry of the zoo has this name"
            f"{did_you_mean(name, known)} (`attention-zoo list` prints all entries)"
        )
    if entry is not None and local.exists():
        _warn_of_local_path(name, "entry")
    return entry or local


def resolve_recipe(recipe: str | Path) -> Path:
    """Return the path of a recipe: the file itself, or that of the recipe of the zoo by name.

    Warns if a name is that of a recipe of the zoo and that of a local file.

    Raises:
        ValueError: a name without a path separator and without the suffix .yaml or .yml that is
            neither a recipe of the zoo nor a file.
    """
    path = Path(os.path.expanduser(recipe))
    if not is_name(recipe) or path.suffix.lower() in RECIPE_SUFFIXES:
        return path
    is_known = find_listing(str(recipe), "recipe") is not None
    if path.exists() and not is_known:
        return path
    if path.exists():
        _warn_of_local_path(str(recipe), "recipe")
    return find_recipe(str(recipe))


def is_entry_folder(folder: Path) -> bool:
    """Return whether a folder is that of an entry of the zoo."""
    listing = find_listing(folder.name, "entry")
    if listing is None:
        return False
    entries = ((root / listing.task / folder.name).resolve() for root in _find_entries())
    return folder.resolve() in entries


def _warn_of_local_path(name: str, kind: str) -> None:
    """Warn that a name is also that of a local file or folder, which is not used."""
    message = f"{name}: using the {kind} of the zoo, not the local path; write ./{name} for that"
    warnings.warn(message, stacklevel=4)


def _find_entries() -> list[Path]:
    """Return the folders of entries; none if attention-zoo-models is not installed."""
    if not (PACKAGE / "recipes").is_dir():  # a source checkout
        return [PACKAGE.parent / "models"]
    spec = importlib.util.find_spec(MODELS_PACKAGE)  # a namespace package
    return [] if spec is None else [*map(Path, spec.submodule_search_locations or ())]
