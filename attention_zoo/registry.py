"""Registries of factories by name, with suggestions for misspelled names."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest of `known`, or an empty string.

    Case is ignored.
    """
    by_lower_case = {text.lower(): text for text in map(str, known)}
    close = difflib.get_close_matches(str(name).lower(), by_lower_case, n=1)
    return f"; did you mean {by_lower_case[close[0]]!r}?" if close else ""


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Raise ValueError unless an argument's value is one of the known names."""
    known = list(known)
    if not isinstance(value, str) or value not in known:
        choices = ", ".join(known)
        raise ValueError(
            f"{name} must be one of {choices}, got {value!r}{did_you_mean(value, known)}"
        )


def check_known(what: str, names: Iterable[object], known: Iterable[str]) -> None:
    """Raise ValueError for a name that is not known.

    Args:
        what: beginning of the message, such as "unknown score" or "layer has no option".
        names, known: the given names and the known ones.
    """
    known = list(known)
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"{what} {name!r}{hint} (known: {', '.join(known)})")


def import_modules(package: str) -> None:
    """Import all modules of an imported package, so that their decorators register classes."""
    for module in pkgutil.walk_packages(sys.modules[package].__path__, f"{package}."):
        importlib.import_module(module.name)


class Registry:
    """Factories of one kind, by name.

    Args:
        kind: singular noun for a factory's product in error messages ("score").
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._factories: dict[str, Callable[..., Any]] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers a factory under `name`.

        The decorator raises ValueError if the name is registered already.
        """

        def decorator(factory: T) -> T:
            if name in self._factories:
                raise ValueError(f"{self.kind} {name!r} is registered already")
            self._factories[name] = factory
            return factory

        return decorator

    def get(self, name: str) -> Callable[..., Any]:
        """Return the factory registered under `name`.

        Raises ValueError, listing the known names, if there is none.
        """
        if name not in self:
            check_known(f"unknown {self.kind}", [name], self.names())
        return self._factories[name]

    def get_name(self, factory: object) -> str | None:
        """Return the name that a factory is registered under, or None."""
        return next(
            (name for name, registered in self._factories.items() if registered is factory), None
        )

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self._factories)

    def exports(self) -> dict[str, Callable[..., Any]]:
        """Return the registered classes and functions by their own names, such as `DotScore`."""
        return {factory.__name__: factory for factory in self._factories.values()}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._factories
