"""Argument parser and parsing of overrides, shared by the commands."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from attention_zoo.extras import explain_missing_package
from attention_zoo.zoo import is_name

OVERRIDE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*=")


class Parser(argparse.ArgumentParser):
    """Argument parser that raises ValueError with a one-line message."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see `{self.prog} --help`")

    def print_help(self, file: Any = None) -> None:
        """Print the help; unlike argparse, raise the OSError of a failed write."""
        print(self.format_help(), end="", file=file)


def expand_home(word: str) -> str:
    """Return an argument with `~` expanded at the start of a path, as in ~/x and --html=~/x."""
    option, equals, path = word.rpartition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{equals}{os.path.expanduser(path)}"


def split_overrides(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the `key.key=value` arguments, and the others."""
    overrides = [word for word in words if OVERRIDE.match(word)]
    return overrides, [word for word in words if not OVERRIDE.match(word)]


def add_recipe(parser: argparse.ArgumentParser, **options: Any) -> None:
    """Add the argument RECIPE, with further options of `add_argument`."""
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="a recipe's YAML file, or the name of a recipe of the zoo (see `attention-zoo list`)",
        **options,
    )


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """Add the option `--dtype`, the dtype policy of the model."""
    parser.add_argument(
        "--dtype",
        help="dtype policy of the model, such as mixed_bfloat16 (default: float32)",
    )


def add_imports(parser: argparse.ArgumentParser) -> None:
    """Add the option `--import`, a list of module names, which `main` imports."""
    parser.add_argument(
        "--import",
        dest="imports",
        metavar="MODULE",
        action="append",
        default=[],
        help="import a Python module, which registers your own models or tasks; may be repeated",
    )


def format_evaluate_command(run: Path) -> str:
    """Return the command that evaluates a run, with the modules that it needs."""
    from attention_zoo.user_modules import format_options, read_imports

    return f"attention-zoo evaluate {_format_folder(run)}{format_options(read_imports(run))}"


def add_overrides(parser: argparse.ArgumentParser, description: str) -> None:
    """Add the argument `overrides`, a list of `key.key=value`."""
    parser.add_argument(
        "overrides", metavar="key=value", nargs="*", type=_check_override, help=description
    )


def _check_override(word: str) -> str:
    if not OVERRIDE.match(word):
        raise argparse.ArgumentTypeError(f"{word}: expected key=value, such as training.steps=100")
    return word


def apply_overrides(task: Any, overrides: Sequence[str], command: str) -> None:
    """Apply `search.*` and `data.*` overrides to the task; raise ValueError for others."""
    from attention_zoo.training import override_task

    options = tuple(f"data.{name}" for name in task.options)
    for text in overrides:
        if not (text.startswith("search.") or text.partition("=")[0] in options):
            raise ValueError(
                f"{text}: {command} takes {' and '.join(('search.', *options))} options only"
            )
    override_task(task, overrides)


def _format_folder(folder: Path) -> str:
    """Return a folder as a command-line argument: `./NAME` for a bare name, as of a zoo entry."""
    return shlex.quote(f"./{folder}" if is_name(str(folder)) else str(folder))


def check_picture(path: Path) -> None:
    """Raise ValueError if no figure can be written to this path."""
    with explain_missing_package():
        from matplotlib.backend_bases import FigureCanvasBase

    known = {*FigureCanvasBase.get_supported_filetypes(), "gif"}
    if path.suffix and path.suffix[1:].lower() not in known:
        raise ValueError(
            f"{path}: unknown image format {path.suffix}; use .png, .svg or .pdf, or .gif for"
            " glimpses"
        )
    check_parent(path)


def check_parent(path: Path) -> None:
    """Raise ValueError if the folder of a file to write does not exist."""
    if path.parent.is_file():
        raise ValueError(f"{path}: {path.parent} is a file; use another folder")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: folder {path.parent} does not exist; create it first")
