"""The masking rules that a failing conformance test names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

RULES = {
    3: "a masked position has weight exactly 0, whatever the scores and the dtype. Use `where`; "
    "adding a large negative number is not enough.",
    4: "a fully masked row has context and weights of exactly 0 and finite gradients, in every "
    "dtype, and softmax runs in float32 at least. Compute scores and weights with "
    "`ops.at_least_float32`.",
}


@contextlib.contextmanager
def masking_rule(number: int) -> Iterator[None]:
    """Add the rule to any error that is raised inside; also a decorator of a test."""
    try:
        yield
    except Exception as error:
        error.add_note(f"Masking rule {number}: {RULES[number]}")
        raise
