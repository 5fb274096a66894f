"""What a summary is told with: where each of its words came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

COPIED = 0.5
"""A token is copied that is this probable to be."""


@dataclass(frozen=True)
class Summary:
    """One summary, where the model looked while it wrote it, and what it copied.

    Args:
        text: the summary, copied words in it.
        score: what the search compares: log-probability with length and coverage penalty.
        tokens: readable labels of the summary's tokens (T), without the end token.
        token_scores: log-probability of each of them (T), and of the end token where there is one.
        source_tokens: readable labels of the source's tokens that were read (S); words that the
            vocabulary has not stand as they are.
        attention: weights (T, S): where the look before each token went.
        copied: how probable each token was copied (T), when it could be copied or said; 0 for a
            model that does not copy.
        origins: of each token that was copied, that is with a probability of 0.5 or more, the place
            in `source_tokens` that it came from, the one most looked at where the word stands at
            several; -1 for others (T).
        cut: True when the search stopped at its longest length before the end token.
        unknown: positions in `source_tokens` of words that the vocabulary has not and that cannot
            be copied either.
        alternatives: the next best summaries of the same source, best first.
        source_cut: True when the source was longer than what was read of it.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    source_tokens: tuple[str, ...]
    attention: np.ndarray
    copied: tuple[float, ...]
    origins: tuple[int, ...]
    cut: bool
    unknown: tuple[int, ...] = ()
    alternatives: tuple[Summary, ...] = ()
    source_cut: bool = False


def origins(
    source: Sequence[int], ids: Sequence[int], attention: np.ndarray, copied: Sequence[float]
) -> tuple[int, ...]:
    """The place in the source that each copied token came from, -1 for one that was not copied.

    Args:
        source: ids (S). ids: those of the tokens (T).
        attention: weights (T, S).
        copied: probability of each token that it was copied (T).
    """
    weights = np.where(np.equal.outer(list(ids), list(source)), attention, -1.0)
    found = weights.argmax(axis=1) if len(ids) else np.zeros(0, int)
    taken = (np.asarray(copied, "float64") >= COPIED) & (weights.max(axis=1, initial=-1.0) >= 0)
    return tuple(int(place) for place in np.where(taken, found, -1))
