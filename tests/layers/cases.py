"""Finds all conformance cases of a folder, independent of what pytest collected."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def cases(folder: str) -> list[type]:
    """Return every class of `tests/<folder>/**/test_*.py` that defines `covers`."""
    result: dict[str, type] = {}
    for path in sorted((TESTS / folder).rglob("test_*.py")):
        module = importlib.import_module(
            ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
        )
        for cls in vars(module).values():
            if inspect.isclass(cls) and hasattr(cls, "covers") and cls.__name__[:4] == "Test":
                result[f"{path.stem}.{cls.__name__}"] = cls
    return list(result.values())


def missing(required: set[type], found: list[type]) -> list[str]:
    """Return the names of classes without a case."""
    return sorted(cls.__name__ for cls in required - {case.covers for case in found})
