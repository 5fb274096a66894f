"""Merge the sources of a recipe, its YAML file and the overrides, into its dataclasses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from attention_zoo.data.reading import get_first_line
from attention_zoo.registry import did_you_mean
from attention_zoo.tasks import TASKS, Task
from attention_zoo.tasks.inputs import refuse_unused
from attention_zoo.training.recipe_sources import (
    RecipeSource,
    locate_errors,
    restore_string_options,
)

LATER_KEYS = ("format_version", "imports")
"""Keys that recipes saved by earlier versions lack."""


def get_task(name: str) -> Any:
    """Return a task class; raise ValueError for an unknown name."""
    try:
        return TASKS.get(name)
    except ValueError as error:
        raise ValueError(f"task={name}: {error}") from None


def merge_sources(
    schema: DictConfig,
    sources: Sequence[RecipeSource],
    text_keys: Collection[str],
    task: type[Task] | None = None,
    location: str = "",
) -> Any:
    """Merge the sources into the schema in order, and convert the result to dataclasses.

    Args:
        schema: a recipe, or the sections `data` and `search`.
        sources: the file and the overrides.
        text_keys: the keys of string options.
        task: the class of the task; None for the one that the recipe names.
        location: start of the message of an error whose key is in none of the sources.
    """
    OmegaConf.set_readonly(schema.search, False)  # a frozen dataclass makes it read-only
    for source in sources:
        if source.problem is not None:  # an unknown key is the better message
            with suppress(OmegaConfBaseException):
                _merge_known(schema, source)
    restore_string_options(sources, text_keys)
    for source in sources:
        if "training" in schema:
            _name_optimizer(schema, source)
            _clear_other_kinds(schema.model, source.as_dict().get("model"))
        schema = _merge(schema, source)
    with locate_errors(sources, location):
        task = task or get_task(schema.task)
        _refuse_unused_search(schema, sources, task)
        if not task.uses_beam_search:  # `n_best` must not exceed `beam_width` in `SearchOptions`
            schema.search.beam_width = max(schema.search.beam_width, schema.search.n_best)
        try:
            return OmegaConf.to_object(schema)
        except OmegaConfBaseException as error:
            raise ValueError(get_first_line(error)) from None


def _refuse_unused_search(
    schema: DictConfig, sources: Sequence[RecipeSource], task: type[Task]
) -> None:
    """Raise ValueError, with the location, for a search option without effect in the task.

    `beam_width` is accepted together with `n_best`, whose limit it is. Saved recipes, which have
    all sections, are not checked: earlier versions accepted any search option.
    """
    keys_of_saved = schema.keys() - LATER_KEYS
    locations = {
        key.removeprefix("search."): source.locate(key)
        for source in sources
        if not keys_of_saved <= source.content.keys()
        for key in source.nodes
        if key.startswith("search.")
    }
    for name, location in locations.items():
        if name == "beam_width" and "n_best" in locations:
            continue
        try:
            refuse_unused([name], task.used_search_options, f"task {task.name}")
        except ValueError as error:
            raise ValueError(f"{location}: {error}") from None


def _clear_other_kinds(current: DictConfig, given: Any) -> None:
    """Clear each mapping of options whose `kind` is replaced; they belong to the other kind."""
    for name, options in given.items() if isinstance(given, Mapping) else ():
        section = current.get(name)
        if isinstance(options, Mapping) and isinstance(section, DictConfig):
            if options.get("kind", section.get("kind")) != section.get("kind"):
                current[name] = {}
            else:
                _clear_other_kinds(section, options)


def _name_optimizer(schema: DictConfig, source: RecipeSource) -> None:
    """Make `training.optimizer` a mapping, so that arguments merge; another name drops them."""
    key, current = "training.optimizer", schema.training.optimizer
    optimizer = OmegaConf.select(source.content, key, default={})
    if not isinstance(optimizer, Mapping | None):
        optimizer = source.get_text(key)  # YAML reads no as False
    if isinstance(optimizer, str):
        optimizer = source.content.training.optimizer = {"name": optimizer}
    if not isinstance(optimizer, Mapping):
        location = source.locate(key)
        raise ValueError(f"{location}: {key} must be a name or a mapping, got {optimizer}")
    if optimizer.get("name", current.name) != current.name:
        schema.training.optimizer = {}


def _merge(schema: DictConfig, source: RecipeSource) -> DictConfig:
    """Merge a source into the schema; raise ValueError that locates a bad key."""
    for key in source.nodes:
        # Files of a split (data.train and others) are a string or a list of strings.
        if isinstance(OmegaConf.select(schema, key), ListConfig) and not key.startswith("data."):
            check_list(source, key)
    try:
        return _merge_known(schema, source)
    except OmegaConfBaseException as error:
        key = str(error.full_key or "")
        name = f"{key}: " if key else ""
        location = source.locate(key.partition("[")[0])
        raise ValueError(f"{location}: {name}{get_first_line(error)}") from None


def check_list(source: RecipeSource, key: str) -> None:
    """Raise ValueError, with the location, unless the value of a list option is a list."""
    text = source.get_text(key)
    if not isinstance(text, list):
        given = OmegaConf.select(source.content, key) if text is None else text
        hint = f"write {key.rpartition('.')[2]}: [{text or '...'}]"
        raise ValueError(f"{source.locate(key)}: {key} must be a list, got {given}; {hint}")


def _merge_known(schema: DictConfig, source: RecipeSource) -> DictConfig:
    """Merge a source into the schema; raise ValueError for an unknown key."""
    try:
        merged: Any = OmegaConf.merge(schema, source.content)
    except ConfigKeyError as error:
        key = str(error.full_key)
        section = OmegaConf.select(schema, key.rpartition(".")[0]) if "." in key else schema
        hint = did_you_mean(error.key, section)
        raise ValueError(f"{source.locate(key)}: unknown key {key!r}{hint}") from None
    return merged
