"""How much each tier does: `make test` runs the fast one, `make test-full` (`--full`) both."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import pytest

FULL = "ATTENTION_ZOO_FULL_TESTS" in os.environ or "--full" in sys.argv
"""Set by `--full`; in the environment for workers, and on the command line for conftest files of
folders, which pytest imports before it configures anything."""

SHARED_FOLDER = "ATTENTION_ZOO_TEST_FOLDER"
"""Environment variable: a folder for what is made once and used by all workers of a run."""

ORACLE_CASES = 200 if FULL else 24
"""Random cases of each comparison with an oracle."""
EXAMPLES = 1000 if FULL else 100
"""Examples of each property test (hypothesis)."""
DIRECTIONS = 2 if FULL else 1
"""Random directions of each finite-difference check."""


def first_fast(values: Iterable[Any]) -> list[Any]:
    """Parameters of which the first is tested in both tiers, the others in the full tier."""
    first, *others = values
    return [first, *map(in_full_tier, others)]


def in_full_tier(value: Any) -> Any:
    """A parameter that is tested in the full tier only."""
    return pytest.param(value, marks=pytest.mark.full)


FULL_TIER_VALUES = {
    "xla",
    "float16",
    "bfloat16",
    "mixed_float16",
    "mixed_bfloat16",
    "float64",
}


def runs_in_full_tier(item: pytest.Item) -> bool:
    """Whether a parameter selects XLA or another precision than float32.

    The marker `fast` keeps such a case in the fast tier.
    """
    callspec = getattr(item, "callspec", None)
    if callspec is None or item.get_closest_marker("fast"):
        return False
    values = [x.values() if isinstance(x, dict) else (x,) for x in callspec.params.values()]
    return any(isinstance(x, str) and x in FULL_TIER_VALUES for group in values for x in group)
