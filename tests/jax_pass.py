"""What the pass on JAX leaves out, so that it stays short: see JAX_EXCEPTIONS."""

from __future__ import annotations

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
    left = {item for item in items if _is_a_law_of_one_backend(item)}
    left |= _every_second_law([item for item in items if item not in left])
    return left | _all_but_one_case([item for item in items if item not in left])


def _is_a_law_of_one_backend(item: pytest.Item) -> bool:
    """Whether it is an inherited law not marked `every_backend`, of a case that is not general."""
    return _is_inherited(item) and item.get_closest_marker("every_backend") is None


def _is_inherited(item: pytest.Item) -> bool:
    """Whether it is a law that a case that is not general has from its conformance."""
    if not (isinstance(item, pytest.Function) and hasattr(item.cls, "covers")):
        return False
    return item.originalname not in vars(item.cls) and item.cls.__name__ not in GENERAL


def _every_second_law(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of the inherited laws every second one of each case.

    Neighbouring cases keep the others, so that every law meets half of them.
    """
    inherited = [item for item in items if _is_inherited(item)]
    cases = {name: number for number, name in enumerate(dict.fromkeys(map(_case, inherited)))}
    laws = {name: number for number, name in enumerate(dict.fromkeys(map(_law, inherited)))}
    return {item for item in inherited if (cases[_case(item)] + laws[_law(item)]) % 2}


def _case(item: pytest.Item) -> str:
    return item.nodeid.rpartition("::")[0]


def _law(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))


def _all_but_one_case(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of each test with several cases all but one.

    Which one goes round, so that a law that many layers share meets all its cases.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left: set[pytest.Item] = set()
    for turn, same in enumerate(cases.values()):
        left |= set(same) - {same[turn % len(same)]}
    return left
