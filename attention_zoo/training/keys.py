"""List of the keys of recipes, with defaults and descriptions (`train --help-keys`)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from dataclasses import MISSING, Field, fields
from typing import Any, NamedTuple

import yaml

from attention_zoo.decoding import SearchOptions
from attention_zoo.tasks import TASKS
from attention_zoo.tasks.building import TokenizerOptions
from attention_zoo.training.recipe import SECTIONS, Recipe, TrainingOptions

_ENTRY = re.compile(r"^([a-z][\w, ]*): (.*(?:\n +.*)*)", re.MULTILINE)
_LATER_SENTENCES = re.compile(r"(?<! al)\. .*")


class Key(NamedTuple):
    """A key of a recipe.

    Attributes:
        name: the key without its section.
        type: the type as annotated, such as `float | None`.
        default: the default as written in YAML.
        description: the first sentence of its description, or an empty string.
    """

    name: str
    type: str
    default: str
    description: str

    def __str__(self) -> str:
        line = f"{self.name}={self.default}"
        return f"{line}  # {self.description}" if self.description else line


def list_keys(options: Any, omitted: Collection[str] = ()) -> list[Key]:
    """Return the keys of a section, from the dataclass of its options."""
    descriptions = find_descriptions(options)
    return [
        Key(
            option.name,
            option.type if isinstance(option.type, str) else option.type.__name__,
            _format_default(option),
            descriptions.get(option.name, ""),
        )
        for option in fields(options)
        if option.name not in omitted
    ]


def format_keys(task: str | None = None) -> str:
    """Return all keys of recipes as text, one per line, with defaults and descriptions.

    Args:
        task: name of a task, to list the options of its corpora only; None lists those of all.

    Raises:
        ValueError: an unknown task.
    """
    classes = [TASKS.get(name) for name in ([task] if task else TASKS.names())]
    lines = [str(key) for key in list_keys(Recipe, SECTIONS)]
    lines += ["", "model.preset=NAME  # required, except with init; see `attention-zoo list`"]
    lines += ["model.ARGUMENT=VALUE  # any argument of the constructor of the preset's class"]
    for prefix, options in (
        ("training.", TrainingOptions),
        ("tokenizer.", TokenizerOptions),
        ("search.", SearchOptions),
    ):
        lines += ["", *(f"{prefix}{key}" for key in list_keys(options))]
    corpora = {
        name: task_class.corpora.get(name)
        for task_class in classes
        for name in task_class.corpora.names()
    }
    for name, corpus in corpora.items():
        lines += ["", f"data.corpus={name}  # {summarize(corpus)}"]
        lines += [f"data.{key}" for key in list_keys(corpus, ["corpus"])]
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


def summarize(options: type) -> str:
    """Return the first sentence of a dataclass's docstring."""
    return _shorten(inspect.getdoc(options) or "")


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
