"""Argument checks shared by the metrics."""

from __future__ import annotations

from collections.abc import Sequence, Sized


def check_same_length(**columns: Sized) -> None:
    """Raise ValueError unless the columns are non-empty lists of the same length."""
    for name, column in columns.items():
        if isinstance(column, str):
            raise ValueError(f"{name} is one string: give a list of strings")
    counts = ", ".join(f"{len(column)} {name}" for name, column in columns.items())
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError(f"there are {counts}: give one of each for every sentence")
    if not all(len(column) for column in columns.values()):
        raise ValueError(f"there are {counts}: give at least one")


def listed(references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Return a list of references per text; raise ValueError if a text has none."""
    found = [[given] if isinstance(given, str) else list(given) for given in references]
    for row, of_text in enumerate(found):
        if not of_text:
            raise ValueError(f"text {row} has no reference: give one at least")
    return found
