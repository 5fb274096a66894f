"""Option variants of a conformance case: only the numerics are tested again."""

from __future__ import annotations

from typing import Any


def numerics_only(case: type) -> type:
    """Class decorator: drops the inherited tests that are not marked `numerics`.

    For a case that makes the layer or model of another case with other options: its values and
    gradients are its own, configuration, masks and documentation are those of the other case.
    """
    for name in dir(case):
        if name.startswith("test_") and name not in vars(case):
            test: Any = getattr(case, name)
            marks = {mark.name for mark in getattr(test, "pytestmark", ())}
            if test is not None and "numerics" not in marks:
                setattr(case, name, None)
    return case
