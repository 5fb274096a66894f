"""Argument parser and parsing of overrides, shared by the commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

OVERRIDE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*=")


class Parser(argparse.ArgumentParser):
    """Argument parser that raises ValueError with a one-line message."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see `{self.prog} --help`")


def split_overrides(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the `key.key=value` arguments, and the others."""
    overrides = [word for word in words if OVERRIDE.match(word)]
    return overrides, [word for word in words if not OVERRIDE.match(word)]


def only_overrides(words: Sequence[str]) -> list[str]:
    """Return the arguments if all of them are overrides; raise ValueError otherwise."""
    overrides, others = split_overrides(words)
    if others:
        raise ValueError(f"{others[0]}: expected key=value, such as training.steps=100")
    return overrides


def apply_overrides(task: Any, overrides: Sequence[str], command: str) -> None:
    """Apply `search.*` and `data.*` overrides to the task; raise ValueError for others."""
    from attention_zoo.training import CORPORA, Recipe, override_recipe
    from attention_zoo.training.building import with_options
    from attention_zoo.training.corpora import kinds_for

    limits = getattr(task, "limits", ())
    names = (*limits, *getattr(task, "switches", ()))
    options = tuple(f"data.{name}" for name in names)
    for text in overrides:
        if not (text.startswith("search.") or text.partition("=")[0] in options):
            raise ValueError(
                f"{text}: {command} takes {' and '.join(('search.', *options))} options only"
            )
    data = CORPORA.get((kinds_for(task) if limits else ["dates"])[0])()
    for name in names:
        setattr(data, name, getattr(task, name))
    if hasattr(task, "index"):  # ranking needs no beam, but n_best must not exceed beam_width
        best = [text for text in overrides if text.startswith("search.n_best=")]
        overrides = [*(text.replace("n_best", "beam_width") for text in best), *overrides]
    recipe = Recipe(task=task.name, data=data, search=task.search)
    with_options(task, override_recipe(recipe, overrides))
