"""The public interface: names, arguments, defaults and presets, compared with a committed list.

python -m tests.test_interface    # update the list after an intended change
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def test_interface_equals_the_committed_list() -> None:
    """A changed default or a removed name affects all users: add it to CHANGELOG.md."""
    assert list_interface() == INTERFACE.read_text("utf-8").splitlines()


if __name__ == "__main__":
    INTERFACE.write_text("\n".join(list_interface()) + "\n", encoding="utf-8")
