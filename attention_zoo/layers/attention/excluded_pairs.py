"""Incompatible pairs of score and alignment."""

from __future__ import annotations

from typing import Any

from attention_zoo.layers.alignments import ALIGNMENTS
from attention_zoo.layers.scores import SCORES

_PLACES = "scores all source positions"

EXCLUDED_PAIRS: dict[tuple[str, str], str] = {
    (score, alignment): _PLACES
    for score in ("location", "coverage", "location_sensitive")
    for alignment in ("local_monotonic", "local_predictive")
}
"""Reason of the incompatibility, by the names of score and alignment."""


def refuse_excluded_pair(score: Any, alignment: Any) -> None:
    """Raise ValueError if score and alignment are incompatible."""
    pair = (SCORES.get_name(type(score)) or "", ALIGNMENTS.get_name(type(alignment)) or "")
    if pair in EXCLUDED_PAIRS:
        raise ValueError(
            f"score {pair[0]!r} {EXCLUDED_PAIRS[pair]}, but alignment {pair[1]!r} attends to a "
            "window; use another score or a global alignment"
        )
