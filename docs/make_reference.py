"""Write the pages that are generated: the API reference, recipe-keys.md and tables of results.

`make docs` runs it. The API reference (docs/api/, not committed) has one page per module with an
`__all__`. recipe-keys.md and choose-a-preset.md, whose tables are generated, are committed.

python docs/make_reference.py
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import attention_zoo
from attention_zoo.decoding import SearchOptions
from attention_zoo.models.presets import PRESETS
from attention_zoo.registry import Registry
from attention_zoo.tasks import TASKS
from attention_zoo.tasks.building import TokenizerOptions
from attention_zoo.training.keys import Key, list_keys, summarize
from attention_zoo.training.recipe import SECTIONS, Recipe, TrainingOptions

HERE = Path(__file__).parent
PACKAGE = "attention_zoo"


KEYS_INTRODUCTION = """\
All keys of a [recipe](training.md), with their Python types and defaults. In a recipe, keys are
nested; on the command line, a section and its key are joined by a dot: `training.steps=1000`.
For the type `Any`, the meaning lists what is accepted. `attention-zoo train --help-keys TASK`
prints the keys of a task. `make docs` writes this page from the docstrings."""
MODEL_INTRODUCTION = """\
`model.preset` is the name of a preset, which is required, except with `init`. The other keys of the
section are arguments of the constructor of the preset's class, and replace the values of the
preset: `model.units=64`."""
DATA_INTRODUCTION = """\
`data.corpus` is the name of one of the task's corpora; `data.split` is the split that
`attention-zoo evaluate` uses. The other keys depend on the corpus."""


class Name(NamedTuple):
    """A public name: its module, and the object."""

    module: str
    name: str
    item: Any

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


def list_modules() -> list[ModuleType]:
    """Return the modules of the package that have an `__all__`."""
    walk = pkgutil.walk_packages(attention_zoo.__path__, f"{PACKAGE}.")
    modules = [attention_zoo, *(importlib.import_module(info.name) for info in walk)]
    return [module for module in modules if hasattr(module, "__all__")]


def list_names() -> dict[str, list[Name]]:
    """Return the public names by module; a name in several modules belongs to the first one."""
    names: dict[str, list[Name]] = {}
    known: set[int | str] = set()
    for module in list_modules():
        for name in module.__all__:
            one = Name(module.__name__, name, getattr(module, name))
            key = id(one.item) if callable(one.item) else one.path
            if key not in known:
                known.add(key)
                names.setdefault(module.__name__, []).append(one)
    return names


def find_comment(one: Name) -> str:
    """Return the string literal below the assignment of a public constant, or an empty string."""
    for module in [m for name, m in sys.modules.items() if name.startswith(PACKAGE)]:
        if vars(module).get(one.name) is one.item:
            for node, following in pairwise(ast.parse(inspect.getsource(module)).body):
                targets = [ast.unparse(t) for t in getattr(node, "targets", ())]
                if one.name in targets and isinstance(following, ast.Expr):
                    text = getattr(following.value, "value", "")
                    return inspect.cleandoc(text) if isinstance(text, str) else ""
    return ""


def describe_constant(one: Name) -> Iterator[str]:
    """Yield the directive of a constant; that of a registry lists its names."""
    yield f".. py:data:: {one.name}"
    yield ""
    yield from (f"   {line}" for line in find_comment(one).splitlines())
    if isinstance(one.item, Registry):
        yield ""
        yield f"   Registered names of the {one.item.kind}:"
        yield ""
        yield from (f"   - `{name}`" for name in one.item.names())


def describe(one: Name) -> Iterator[str]:
    """Yield the directive of a public name."""
    if inspect.isclass(one.item):
        yield f".. autoclass:: {one.path}"
    elif inspect.isfunction(one.item):
        yield f".. autofunction:: {one.path}"
    elif inspect.ismodule(one.item):
        yield f".. py:module:: {one.item.__name__}"
        yield ""
        yield (inspect.getdoc(one.item) or "").partition("\n")[0]
    else:
        yield from describe_constant(one)
    yield ""


def format_api_page(module: ModuleType, names: list[Name]) -> str:
    """Return the page of a module."""
    lines = [f"# {module.__name__}", "", inspect.getdoc(module) or "", ""]
    pages = [one for one in names if inspect.ismodule(one.item) and hasattr(one.item, "__all__")]
    lines += [f"- [{one.path}]({one.name}.md)" for one in pages]
    lines += ["", "```{eval-rst}", f".. py:currentmodule:: {module.__name__}", ""]
    lines += [line for one in names if one not in pages for line in describe(one)]
    return "\n".join([*lines, "```", ""])


def format_api_pages() -> dict[str, str]:
    """Return the pages of the API reference by file name."""
    modules = {module.__name__: module for module in list_modules()}
    pages = {
        f"{name.removeprefix(f'{PACKAGE}.')}.md": format_api_page(modules[name], names)
        for name, names in list_names().items()
    }
    index = ["# API reference", "", "Every public name, from its docstring. The letters of shapes"]
    index += ["are those of the [glossary](../glossary.md).", "", "```{toctree}", *pages, "```", ""]
    return {**pages, "index.md": "\n".join(index)}


def write_api() -> None:
    """Write the pages of the API reference to docs/api/; unchanged ones are left as they are."""
    folder, pages = HERE / "api", format_api_pages()
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        if not (folder / name).exists() or (folder / name).read_text("utf-8") != text:
            (folder / name).write_text(text, encoding="utf-8")


def format_table(keys: list[Key]) -> list[str]:
    """Return the lines of a table of keys."""
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key in keys:
        cells = (f"`{key.name}`", f"`{key.type}`", f"`{key.default}`", key.description)
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return [*rows, ""]


def format_keys_page() -> str:
    """Return the page of all keys of recipes."""
    lines = ["# Recipe keys", "", *KEYS_INTRODUCTION.splitlines(), ""]
    lines += ["## Top level", "", *format_table(list_keys(Recipe, SECTIONS))]
    sections = {"training": TrainingOptions, "tokenizer": TokenizerOptions, "search": SearchOptions}
    for name, options in sections.items():
        lines += [f"## {name}", "", *format_table(list_keys(options))]
    lines += [
        "## model",
        "",
        *MODEL_INTRODUCTION.splitlines(),
        "",
        "| preset | model |",
        "|---|---|",
    ]
    for name in PRESETS.names():
        lines.append(f"| `{name}` | `models.{PRESETS.get(name)()[0].__name__}` |")
    lines += ["", "## data", "", *DATA_INTRODUCTION.splitlines(), ""]
    tasks: dict[tuple[str, type], list[str]] = {}
    for task in TASKS.names():
        for corpus in TASKS.get(task).corpora.names():
            options = TASKS.get(task).corpora.get(corpus)
            tasks.setdefault((corpus, options), []).append(f"`{task}`")
    for (corpus, options), names in sorted(tasks.items(), key=lambda item: item[0][0]):
        lines += [f"### {corpus}: {', '.join(names).replace('`', '').replace('_', ' ')}", ""]
        lines += [f"{summarize(options)}.", "", *format_table(list_keys(options, ["corpus"]))]
    return "\n".join(lines).rstrip("\n") + "\n"


def find_best_value(evaluations: list[dict[str, Any]], split: str, metric: str) -> str:
    """Return the best value on a split, over search options, or a dash."""
    of_split = [one for one in evaluations if one["split"] == split]
    values = [one["metrics"][metric] for one in of_split if one["data"] == of_split[0]["data"]]
    return f"{max(values):.1f}" if values else "-"


def format_results_table(patterns: str, metric: str, splits: list[str]) -> Iterator[str]:
    """Yield the lines of a table of entries of the zoo: for each split, the best value."""
    heads = ["entry", "parameters", "training up to the checkpoint, minutes"]
    yield f"| {' | '.join([*heads, *(f'`{split}`' for split in splits)])} |"
    yield f"|---|---|---|{'---|' * len(splits)}"
    zoo = HERE.parent / "models"
    for path in sorted(f for p in patterns.split(",") for f in zoo.glob(f"{p}/results.json")):
        results = json.loads(path.read_text("utf-8"))
        cells = [f"{results['parameters']:,}", f"{results['training_seconds'] / 60:.0f}"]
        cells += [find_best_value(results["evaluations"], split, metric) for split in splits]
        folder = path.parent.relative_to(HERE.parent).as_posix()
        yield f"| [{path.parent.name}](../{folder}/README.md) | {' | '.join(cells)} |"


def format_presets_page(text: str) -> str:
    """Return choose-a-preset.md with the tables of results brought up to date."""

    def fill(match: re.Match[str]) -> str:
        patterns, metric, splits = match[2].split()
        return "\n".join(
            [match[1], "", *format_results_table(patterns, metric, splits.split(",")), ""]
        )

    return re.sub(r"(<!-- results: (.+) -->)\n(\n(?:\|.*\n)+)?", fill, text)


def format_committed_pages() -> dict[Path, str]:
    """Return the generated pages that are committed."""
    presets = HERE / "choose-a-preset.md"
    return {
        HERE / "recipe-keys.md": format_keys_page(),
        presets: format_presets_page(presets.read_text("utf-8")),
    }


def main() -> None:
    """Write all pages."""
    write_api()
    for path, text in format_committed_pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
