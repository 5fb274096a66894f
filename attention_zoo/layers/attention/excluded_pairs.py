"""Incompatible pairs of score and alignment."""

from __future__ import annotations

from typing import Any

from attention_zoo.layers.alignments import ALIGNMENTS
from attention_zoo.layers.scores import SCORES

_SCORES_ALL_POSITIONS = "scores all source positions"

EXCLUDED_PAIRS: dict[tuple[str, str], str] = {
    (score, alignment): _SCORES_ALL_POSITIONS
    for score in ("location", "coverage", "location_sensitive")
    for alignment in ("local_monotonic", "local_predictive")
}
"""Reason of the incompatibility, by the names of score and alignment."""


def refuse_excluded_pair(score: Any, alignment: Any) -> None:
    """Raise ValueError if score and alignment are incompatible."""
    pair = (SCORES.name_of(type(score)) or "", ALIGNMENTS.name_of(type(alignment)) or "")
    if pair in EXCLUDED_PAIRS:
        raise ValueError(
            f"score {pair[0]!r} {EXCLUDED_PAIRS[pair]}, but alignment {pair[1]!r} attends to a "
            "window; use another score or a global alignment"
        )
