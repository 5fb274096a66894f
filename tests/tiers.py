"""Test tiers: `make test` runs the fast tier, `make test-full` (`--full`) both tiers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import pytest

FULL = "ATTENTION_ZOO_FULL_TESTS" in os.environ or "--full" in sys.argv
"""Whether `--full` is given; workers of xdist read it from the environment."""

SHARED_FOLDER = "ATTENTION_ZOO_TEST_FOLDER"
"""Environment variable: folder of files that all workers of a run share."""

ORACLE_CASES = 200 if FULL else 24  # random cases of each comparison with an oracle
EXAMPLES = 1000 if FULL else 100  # of each property test (hypothesis)
DIRECTIONS = 2 if FULL else 1  # random directions of each finite-difference check


def mark_others_full(values: Iterable[Any]) -> list[Any]:
    """Mark all parameters but the first for the full tier."""
    first, *others = values
    return [first, *map(mark_full, others)]


def mark_full(value: Any) -> Any:
    """Mark a parameter for the full tier."""
    return pytest.param(value, marks=pytest.mark.full)


HALF_PRECISION = {"float16", "bfloat16", "mixed_float16", "mixed_bfloat16"}
FULL_TIER_VALUES = {"xla", "float64", *HALF_PRECISION}


def runs_in_full_tier(item: pytest.Item) -> bool:
    """Whether a parameter selects XLA or a precision other than float32.

    The marker `fast` keeps such a case in the fast tier.
    """
    callspec = getattr(item, "callspec", None)
    if callspec is None or item.get_closest_marker("fast"):
        return False
    values = [x.values() if isinstance(x, dict) else (x,) for x in callspec.params.values()]
    return any(isinstance(x, str) and x in FULL_TIER_VALUES for group in values for x in group)
