"""What the pass on JAX leaves out, so that it stays short: see JAX_EXCEPTIONS."""

from __future__ import annotations

import pytest

GENERAL = ("TestAttention", "TestMultiHeadAttention", "TestAttentionCell", "TestRecurrentDecoder")
"""The cases that run the laws of the interface on every backend."""


def left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of the collected tests those that are not run."""
    left = {item for item in items if _speaks_of_the_interface(item)}
    return left | _all_but_a_third([item for item in items if item not in left])


def _speaks_of_the_interface(item: pytest.Item) -> bool:
    """Whether it is a law of masks, config or docstrings of a layer that is not general."""
    from tests.layers.layer_laws import INTERFACE_LAWS
    from tests.layers.mask_laws import MaskLaws

    laws = {name for name in vars(MaskLaws) if name.startswith("test_")} | INTERFACE_LAWS
    return (
        isinstance(item, pytest.Function)
        and hasattr(item.cls, "covers")
        and item.cls.__name__ not in GENERAL
        and item.originalname in laws
    )


def _all_but_a_third(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of each test with several cases those that are not run: two in three, never all.

    Which third it is goes round, so that a law that many layers share meets all its cases.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and getattr(item.cls, "__name__", "") not in GENERAL:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left: set[pytest.Item] = set()
    for turn, same in enumerate(cases.values()):
        first = turn % min(3, len(same))
        left |= set(same) - set(same[first::3])
    return left
