"""List of the keys of recipes, with defaults and descriptions (`train --help-keys`)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from typing import Any

import yaml

from attention_zoo.decoding import SearchOptions
from attention_zoo.tasks import TASKS
from attention_zoo.tasks.building import TokenizerOptions
from attention_zoo.training.recipe import SECTIONS, Recipe, TrainingOptions

_ENTRY = re.compile(r"^([a-z][\w, ]*): (.*(?:\n +.*)*)", re.MULTILINE)
_LATER_SENTENCES = re.compile(r"(?<! al)\. .*")


def format_keys(task: str | None = None) -> str:
    """Return all keys of recipes as text, one per line, with defaults and descriptions.

    Args:
        task: name of a task, to list the options of its corpora only; None lists those of all.

    Raises:
        ValueError: an unknown task.
    """
    classes = [TASKS.get(name) for name in ([task] if task else TASKS.names())]
    lines = [
        *_format_options(Recipe, "", [name for name in _list_names(Recipe) if name in SECTIONS])
    ]
    lines += ["", "model.preset=NAME  # required, except with init; see `attention-zoo list`"]
    lines += ["model.ARGUMENT=VALUE  # any argument of the constructor of the preset's class"]
    for prefix, options in (
        ("training.", TrainingOptions),
        ("tokenizer.", TokenizerOptions),
        ("search.", SearchOptions),
    ):
        lines += ["", *_format_options(options, prefix)]
    corpora = {
        name: task_class.corpora.get(name)
        for task_class in classes
        for name in task_class.corpora.names()
    }
    for name, corpus in corpora.items():
        lines += ["", f"data.corpus={name}  # {_shorten(inspect.getdoc(corpus) or '')}"]
        lines += _format_options(corpus, "data.", ["corpus"])
    return "\n".join(lines)


def find_descriptions(options: type) -> dict[str, str]:
    """Return the descriptions of a dataclass's options in its docstring and those of its bases."""
    descriptions: dict[str, str] = {}
    for cls in reversed(options.__mro__):
        _, _, arguments = (cls.__doc__ or "").partition("Args:\n")
        text = inspect.cleandoc("Args:\n" + arguments.partition("\n\n")[0])
        for names, description in _ENTRY.findall(text):
            descriptions |= dict.fromkeys(names.split(", "), _shorten(description))
    return descriptions


def _list_names(options: Any) -> list[str]:
    return [option.name for option in fields(options)]


def _format_options(options: Any, prefix: str, omitted: list[str] | None = None) -> Iterator[str]:
    descriptions = find_descriptions(options)
    for option in fields(options):
        if option.name not in (omitted or ()):
            line = f"{prefix}{option.name}={_format_default(option)}"
            description = descriptions.get(option.name)
            yield f"{line}  # {description}" if description else line


def _format_default(option: Field[Any]) -> str:
    """Return the default as it is written in YAML."""
    default = option.default
    if option.default_factory is not MISSING:
        default = option.default_factory()
    default = list(default) if isinstance(default, tuple) else default
    return yaml.safe_dump(default, default_flow_style=True).removesuffix("...\n").strip()


def _shorten(text: str) -> str:
    """Return the first sentence of a text on one line, without its period."""
    return _LATER_SENTENCES.sub("", " ".join(text.split())).rstrip(".")
