"""What the commands share: the parser, and telling overrides from file names."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

OVERRIDE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*=")

OPTIONS = ("search.", "data.max_source_length")
"""What of a run a command that uses it may change."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, as all others are."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see `{self.prog} --help`")


def split_overrides(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """`key.key=value` words, and the others."""
    overrides = [word for word in words if OVERRIDE.match(word)]
    return overrides, [word for word in words if not OVERRIDE.match(word)]


def only_overrides(words: Sequence[str]) -> list[str]:
    """The words, when all of them are overrides; ValueError otherwise."""
    overrides, others = split_overrides(words)
    if others:
        raise ValueError(f"{others[0]}: is no key=value; write options as training.steps=100")
    return overrides


def apply_overrides(task: Any, overrides: Sequence[str], command: str) -> None:
    """Put the overrides into the task."""
    from attention_zoo.training import Recipe, override_recipe

    for text in overrides:
        if not text.startswith(OPTIONS):
            raise ValueError(f"{text}: {command} takes {' and '.join(OPTIONS)} options only")
    recipe = Recipe(search=task.search)
    recipe.data.max_source_length = task.max_source_length
    recipe = override_recipe(recipe, overrides)
    task.search, task.max_source_length = recipe.search, recipe.data.max_source_length
