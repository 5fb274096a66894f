"""Registries of factories by name, with suggestions for misspelled names."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])


class UnknownNameError(ValueError):
    """Error for a name that is not registered.

    Args:
        summary: what is unknown, such as "unknown score 'dott'".
        advice: the rest of the message.
    """

    def __init__(self, summary: str, advice: str) -> None:
        super().__init__(summary + advice)
        self.summary = summary


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
            raise ValueError(f"{what} {name!r}{_list_known(name, known)}")


def _list_known(name: object, known: Sequence[str]) -> str:
    """Return the end of a message about an unknown name: a suggestion, and all known names."""
    return f"{did_you_mean(name, known)} (known: {', '.join(known)})"


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
        """Return a decorator that registers a factory, a class or a function, under `name`.

        A factory replaces an earlier version of itself, with the same module and qualified name.
        So a notebook cell can run again, and a module can be reloaded.

        The decorator raises ValueError if another factory is registered under the name.
        """

        def decorator(factory: T) -> T:
            other = self._factories.get(name, factory)
            if _get_full_name(other) != _get_full_name(factory):
                raise ValueError(
                    f"{self.kind} {name!r} is registered already, by {_get_full_name(other)}; use"
                    " another name"
                )
            self._factories[name] = factory
            return factory

        return decorator

    def get(self, name: str) -> Callable[..., Any]:
        """Return the factory registered under `name`.

        Raises UnknownNameError, listing the known names, if there is none.
        """
        if name not in self:
            advice = _list_known(name, self.names())
            raise UnknownNameError(f"unknown {self.kind} {name!r}", advice)
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


def _get_full_name(factory: Callable[..., Any]) -> str:
    """Return the module and the qualified name of a class or function; else its `repr`."""
    name = getattr(factory, "__qualname__", None)
    return repr(factory) if name is None else f"{factory.__module__}.{name}"
