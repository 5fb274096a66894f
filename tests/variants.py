"""Option variants of a conformance case, which repeat its tests of values and gradients only."""

from __future__ import annotations

from typing import Any


def numerics_only(case: type) -> type:
    """Drop the inherited tests that are not marked `numerics` (class decorator).

    For a case that inherits from a case of the same layer or model with other options, which tests
    configuration, masks and documentation.
    """
    for name in dir(case):
        if name.startswith("test_") and name not in vars(case):
            test: Any = getattr(case, name)
            marks = {mark.name for mark in getattr(test, "pytestmark", ())}
            if test is not None and "numerics" not in marks:
                setattr(case, name, None)
    return case
