"""Modules of users, which register their own models, presets and tasks.

They are imported only if the user names them, in a recipe to train or with `--import`. Saved models
and runs name classes and modules, but loading them imports nothing.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path, PurePath

import yaml

from attention_zoo.json_files import MAX_RECIPE_BYTES, read_limited
from attention_zoo.registry import UnknownNameError, did_you_mean

_MODULE_NAME = re.compile(r"[\w-]+(\.[\w-]+)*(?<!\.py)")


def import_user_modules(names: Sequence[str], option: str = "imports") -> None:
    """Import modules by name, with the current folder on `sys.path`.

    A module that is imported already, or runs as the program, is not imported again.

    Args:
        names: names of modules, such as `my_module` or `my_package.translators`.
        option: the option that contains the names, for error messages.

    Raises:
        ValueError: a name is not that of a module, or the import fails.
    """
    if isinstance(names, str):
        raise ValueError(f"{option} must be a list of names, got {names!r}; pass [{names!r}]")
    for name in names:
        if not isinstance(name, str) or not _MODULE_NAME.fullmatch(name):
            raise ValueError(
                f"{option}: expected a module name such as my_module, got {name!r}{_hint(name)}"
            )
        if not {"", os.getcwd()} & {*sys.path}:
            sys.path.insert(0, os.getcwd())
        importlib.invalidate_caches()
        _refuse_shadowed(name, option)
        try:
            if name not in sys.modules and not _is_program(name):
                importlib.import_module(name)
        except (Exception, SystemExit) as error:
            raise ValueError(f"{option}: {_explain(name, error)}") from error


def _refuse_shadowed(name: str, option: str) -> None:
    """Raise ValueError if another module of this name than the local file is imported already."""
    local, loaded = Path(*name.split(".")).with_suffix(".py"), sys.modules.get(name)
    if loaded is None or not local.is_file():
        return
    path = getattr(loaded, "__file__", None) or "built into Python"
    if os.path.realpath(path) != os.path.realpath(local):
        raise ValueError(
            f"{option}: {local} is not imported, because the module {name} is already imported"
            f" ({path}); rename the file"
        )


def _hint(name: object) -> str:
    """Return advice to use the module name if `name` is a path."""
    path = PurePath(str(name).removesuffix(".py"))
    if len(path.parts) < 2 and str(path) == str(name):
        return ""
    if path.is_absolute() or ".." in path.parts:
        return f"; use {path.name}, and add its folder to PYTHONPATH or make it the current folder"
    return f"; use {'.'.join(path.parts)}"


def _is_program(name: str) -> bool:
    """Return whether a module is the script that Python runs, whose name is `__main__`."""
    program, spec = getattr(sys.modules["__main__"], "__file__", None), find_spec(name)
    if program is None or spec is None or spec.origin is None:
        return False
    return os.path.realpath(spec.origin) == os.path.realpath(program)


def _explain(name: str, error: BaseException) -> str:
    """Return why an import failed: the module is missing, or an error of its own with its line."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and f"{name}.".startswith(f"{missing}."):
        known = [module.name for module in pkgutil.iter_modules([os.getcwd()])]
        return f"no module {name!r} in the current folder or on sys.path{did_you_mean(name, known)}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.name == "<module>"]
    location = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"importing {name} failed: {location}{reason}"


@contextmanager
def name_missing_modules(folder: Path) -> Iterator[None]:
    """Name the modules to import in a ValueError about an unknown name in a run or checkpoint.

    These are the `imports` of the run's recipe that are not imported.
    """
    try:
        yield
    except ValueError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, UnknownNameError):
            cause = cause.__cause__
        missing = [name for name in read_imports(folder) if name not in sys.modules]
        if cause is None or not missing:
            raise
        pronoun = "it" if len(missing) == 1 else "them"
        raise ValueError(
            f"{cause.summary}; this run was trained with imports: [{', '.join(missing)}]: pass"
            f"{format_options(missing)}, or import {pronoun} in Python before az.load"
        ) from None


def format_options(names: Sequence[str]) -> str:
    """Return the option `--import` for each module, with a space before each."""
    return "".join(f" --import {name}" for name in names)


def read_imports(folder: Path) -> list[str]:
    """Return the module names in the recipe of a run, given its folder or one of a checkpoint."""
    folder = folder.resolve()
    run = folder.parent.parent if folder.parent.name == "checkpoints" else folder
    try:
        recipe = yaml.safe_load(read_limited(run / "recipe.yaml", MAX_RECIPE_BYTES))
        return [name for name in recipe["imports"] if _MODULE_NAME.fullmatch(name)]
    except (OSError, ValueError, TypeError, KeyError, RecursionError, yaml.YAMLError):
        return []
