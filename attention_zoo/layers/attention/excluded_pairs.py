"""Incompatible pairs of score and alignment."""

from __future__ import annotations

from typing import Any

from attention_zoo.layers.alignments import ALIGNMENTS, Alignment
from attention_zoo.layers.scores import SCORES, Score

_REASON = "scores all source positions"


def _is_excluded(score: Any, alignment: Any) -> bool:
    """Return whether a score class needs all source positions and an alignment class a window."""
    is_local = alignment.width is not Alignment.width
    return is_local and (score.is_stateful or score.needs_all_positions)


EXCLUDED_PAIRS: dict[tuple[str, str], str] = {
    (score, alignment): _REASON
    for score in SCORES.names()
    for alignment in ALIGNMENTS.names()
    if _is_excluded(SCORES.get(score), ALIGNMENTS.get(alignment))
}
"""Reason of the incompatibility, by the names of score and alignment."""


def refuse_excluded_pair(score: Score, alignment: Alignment) -> None:
    """Raise ValueError if score and alignment are incompatible."""
    if _is_excluded(type(score), type(alignment)):
        score_name = SCORES.get_name(type(score)) or type(score).__name__
        alignment_name = ALIGNMENTS.get_name(type(alignment)) or type(alignment).__name__
        raise ValueError(
            f"score {score_name!r} {_REASON}, but alignment {alignment_name!r} attends to a "
            "window; use another score or a global alignment"
        )
