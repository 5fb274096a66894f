"""What the pass on JAX leaves out, so that it stays short: see JAX_EXCEPTIONS."""

from __future__ import annotations

import zlib

import pytest

GENERAL = (
    "TestAttention",
    "TestMultiHeadAttention",
    "TestAttentionCell",
    "TestRecurrentDecoder",
    "TestRNNSearch",
)
"""The conformance cases that every law is run for."""


def left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of the collected tests those that are not run."""
    left = {item for item in items if _is_a_law_of_one_backend(item) or _is_of_one_model(item)}
    return left | _all_but_one_case([item for item in items if item not in left])


def _is_a_law_of_one_backend(item: pytest.Item) -> bool:
    """Whether it is an inherited law not marked `every_backend`, of a case that is not general."""
    if not (isinstance(item, pytest.Function) and hasattr(item.cls, "covers")):
        return False
    inherited = item.originalname not in vars(item.cls)
    marked = item.get_closest_marker("every_backend") is not None
    return inherited and not marked and item.cls.__name__ not in GENERAL


def _is_of_one_model(item: pytest.Item) -> bool:
    """Whether a model's own file says it beside the laws: its layers are run with their tests."""
    if "models" not in item.path.parts or not isinstance(item, pytest.Function):
        return False
    own = item.cls is None or item.originalname in vars(item.cls)
    return own and item.get_closest_marker("every_backend") is None


def _all_but_one_case(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of each test with several cases all but one.

    Which one follows from the test's name alone: a law that many layers share meets all its cases,
    and a new test does not change what is run of the others.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left: set[pytest.Item] = set()
    for name, same in cases.items():
        left |= set(same) - {same[zlib.crc32(name.encode()) % len(same)]}
    return left
