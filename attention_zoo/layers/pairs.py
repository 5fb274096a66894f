"""Which scores and alignments do not go together."""

from __future__ import annotations

from typing import Any

from attention_zoo.layers.alignments import ALIGNMENTS
from attention_zoo.layers.scores import SCORES

_PLACES = "scores places of the whole memory, and a window shows it only some"

EXCLUDED_PAIRS: dict[tuple[str, str], str] = {
    (score, alignment): _PLACES
    for score in ("location", "coverage", "location_sensitive")
    for alignment in ("local_monotonic", "local_predictive")
}
"""Name of a score and name of an alignment: why the two are refused together."""


def refuse_excluded_pair(score: Any, alignment: Any) -> None:
    """ValueError for two parts that do not go together."""
    pair = (SCORES.name_of(type(score)) or "", ALIGNMENTS.name_of(type(alignment)) or "")
    if pair in EXCLUDED_PAIRS:
        raise ValueError(
            f"score {pair[0]!r} {EXCLUDED_PAIRS[pair]}, as alignment {pair[1]!r} does; "
            "take another score, or a global alignment"
        )
