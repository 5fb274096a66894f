"""The public interface: names, arguments, defaults and presets, compared with a committed list.

python -m tests.test_interface    # update the list after an intended change
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import attention_zoo
from attention_zoo.models.presets import PRESETS
from attention_zoo.registry import Registry

SHOWN = (bool, int, float, str, tuple, type(None), type(inspect.Parameter.empty))
INTERFACE = Path(__file__).parent / "golden" / "interface.txt"


def format_signature(function: Any) -> str:
    """Return arguments and defaults, without annotations."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    parameters = [
        p.replace(
            annotation=p.empty,
            default=p.default if isinstance(p.default, SHOWN) else f"<{type(p.default).__name__}>",
        )
        for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def describe(name: str, item: Any) -> Iterator[str]:
    """Yield the signature of a public object, and those of its methods that have defaults."""
    if not callable(item):
        yield name
        return
    parameters = getattr(item, "__dataclass_params__", None)
    yield name + format_signature(item) + " frozen" * (parameters is not None and parameters.frozen)
    if inspect.isclass(item):
        for method, function in sorted(vars(item).items()):
            if not method.startswith("_") and inspect.isfunction(function):
                arguments = format_signature(function)
                if "=" in arguments:
                    yield f"{name}.{method}{arguments}"


def list_interface() -> list[str]:
    """Return a line for each public name, registered factory and preset, sorted."""
    public: dict[Any, tuple[str, Any]] = {}
    registered: dict[tuple[str, str], Any] = {}
    submodules = pkgutil.walk_packages(attention_zoo.__path__, "attention_zoo.")
    for module in [attention_zoo, *(importlib.import_module(info.name) for info in submodules)]:
        for name in getattr(module, "__all__", ()):
            item = getattr(module, name)
            key = id(item) if callable(item) else f"{module.__name__}.{name}"
            public.setdefault(key, (f"{module.__name__}.{name}", item))
        for registry in filter(lambda x: isinstance(x, Registry), vars(module).values()):
            for key in registry.names():
                factory = registry.get(key)
                if not getattr(factory, "__module__", "").startswith("tests."):
                    registered[registry.kind, key] = factory
    lines = [line for name, item in public.values() for line in describe(name, item)]
    for (kind, key), factory in registered.items():
        if kind == PRESETS.kind:
            cls, settings = factory()
            lines.append(f"{kind} {key}: {cls.__name__} {dict(sorted(settings.items()))}")
        elif id(factory) in public:
            lines.append(f"{kind} {key}: {public[id(factory)][0]}")
        else:
            lines += describe(f"{kind} {key}: ", factory)
    return sorted(lines)


def find_problems(committed: list[str], current: list[str], every: bool) -> list[str]:
    """Return the lines that are removed (-) or added (+).

    Args:
        committed: the committed list.
        current: lines of `list_interface`.
        every: also report what a newly registered class or preset adds.
    """
    added = sorted(set(current) - set(committed))
    if not every:
        names = {line.partition(": ")[0] for line in committed}
        new = [line for line in added if REGISTERED.match(line)]
        new = [line for line in new if line.partition(": ")[0] not in names]
        classes = {line.partition(": ")[2] for line in new} - {""}
        added = [line for line in added if line not in new and owner(line) not in classes]
    removed = sorted(set(committed) - set(current))
    return [f"- {line}" for line in removed] + [f"+ {line}" for line in added]


REGISTERED = re.compile(r"[^(]+ [^( ]+: ")
"""A registered name and its class or preset, as `score dot: attention_zoo.layers.DotScore`."""


def owner(line: str) -> str:
    """Return the class of a line with its signature, or with one of its methods."""
    name = line.partition("(")[0]
    cls, _, method = name.rpartition(".")
    return cls if method[:1].islower() and cls.rpartition(".")[2][:1].isupper() else name


def test_nothing_public_is_removed_or_changed() -> None:
    """A changed default or a removed name affects all users: add it to CHANGELOG.md.

    A newly registered class need not be in the list until the full tier runs.
    """
    assert find_problems(INTERFACE.read_text("utf-8").splitlines(), list_interface(), False) == []


@pytest.mark.full
def test_the_committed_list_is_complete() -> None:
    committed = INTERFACE.read_text("utf-8").splitlines()
    assert committed == list_interface(), "run `.venv/bin/python -m tests.test_interface`"


def test_changes_are_found() -> None:
    committed = ["score dot: az.DotScore", "az.DotScore(**kwargs)", "az.Score(**kwargs)", "az.f(x)"]
    part = ["score new: az.NewScore", "az.NewScore(units=None)", "az.NewScore.project(key=None)"]
    preset = ["preset small: GPT {'units': 3}", "attention.kind new: (units=3)"]
    assert find_problems(committed, committed + part + preset, every=False) == []
    assert len(find_problems(committed, committed + part + preset, every=True)) == 5
    assert find_problems(committed, committed[1:], every=False) == [f"- {committed[0]}"]
    for line in ("az.g(x)", "az.Other(x)", "az.DotScore.project(key=None)", "az.NewScoreMixin()"):
        assert find_problems(committed, [*committed, *part, line], every=False) == [f"+ {line}"]
    changed = ["score dot: az.OtherScore", "az.DotScore(units=3)"]
    expected = [f"- {line}" for line in sorted(committed[:2])]
    expected += [f"+ {line}" for line in sorted(changed)]
    assert find_problems(committed, changed + committed[2:], every=False) == expected


if __name__ == "__main__":
    INTERFACE.write_text("\n".join(list_interface()) + "\n", encoding="utf-8")
