"""Argument checks shared by the metrics."""

from __future__ import annotations

from collections.abc import Sequence, Sized


def check_same_length(**columns: Sized) -> None:
    """Raise ValueError unless the columns are non-empty lists of the same length."""
    for name, column in columns.items():
        if isinstance(column, str):
            raise ValueError(f"{name} must be a list of strings, got one string")
    counts = ", ".join(f"{len(column)} {name}" for name, column in columns.items())
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError(f"expected one of each for every sentence, got {counts}")
    if not all(len(column) for column in columns.values()):
        raise ValueError(f"expected at least one of each, got {counts}")


def as_reference_lists(references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Return a list of references per text; raise ValueError if a text has none."""
    lists = [[texts] if isinstance(texts, str) else list(texts) for texts in references]
    for row, text_references in enumerate(lists):
        if not text_references:
            raise ValueError(f"text {row} must have at least one reference, got none")
    return lists
