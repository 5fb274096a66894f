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
"""The conformance cases for which every inherited test is run."""


def find_deselected(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the collected tests that are not run on JAX."""
    deselected = {item for item in items if _is_for_one_backend(item) or _is_for_one_model(item)}
    remaining = [item for item in items if item not in deselected]
    return deselected | _all_but_one_case(remaining)


def _is_for_one_backend(item: pytest.Item) -> bool:
    """Whether it is an inherited test without the mark `every_backend`, of another case."""
    if not (isinstance(item, pytest.Function) and hasattr(item.cls, "covers")):
        return False
    inherited = item.originalname not in vars(item.cls)
    marked = item.get_closest_marker("every_backend") is not None
    return inherited and not marked and item.cls.__name__ not in GENERAL


def _is_for_one_model(item: pytest.Item) -> bool:
    """Whether it is a model's own test, not inherited: its layers have their own tests."""
    if "models" not in item.path.parts or not isinstance(item, pytest.Function):
        return False
    own = item.cls is None or item.originalname in vars(item.cls)
    return own and item.get_closest_marker("every_backend") is None


def _all_but_one_case(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return all but one of the cases of each test.

    The case depends only on the test's id: a test that many layers inherit runs in all its cases,
    and a new test does not change the cases of other tests.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left: set[pytest.Item] = set()
    for name, same in cases.items():
        left |= set(same) - {same[zlib.crc32(name.encode()) % len(same)]}
    return left
