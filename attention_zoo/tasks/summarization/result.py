"""The result of summarization: a summary with its attention and the origins of copied words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attention_zoo.tasks.result import Result

COPIED = 0.5
"""Copy probability from which a token counts as copied."""


@dataclass(frozen=True, kw_only=True)
class Summary(Result):
    """A generated summary with its attention and its copied words.

    Args:
        text: the summary, including copied words.
        score: the score of the hypothesis: log probability with length and coverage penalty.
        tokens: readable labels of the summary's tokens (T), without the end token.
        token_scores: log probability of each token (T), and of the end token if there is one.
        source_tokens: readable labels of the source's tokens after truncation (S);
            out-of-vocabulary words are shown as in the text.
        attention: attention weights (T, S) of the step that generates each token.
        copied: probability (T) that each token was copied and not generated from the vocabulary; 0
            for a model that does not copy.
        origins: position in `source_tokens` of each copied token (T); -1 for other tokens. A token
            is copied if its copy probability is at least 0.5. If the word occurs at several
            positions, its origin is the one with the largest attention weight.
        unknown: positions in `source_tokens` of out-of-vocabulary words that cannot be copied.
        source_truncated: True if the source was truncated.
        truncated, alternatives: see `Result`.
    """

    token_scores: tuple[float, ...] = ()
    copied: tuple[float, ...] = ()
    origins: tuple[int, ...] = ()
    source_truncated: bool = False


def origins(
    source: Sequence[int], ids: Sequence[int], attention: np.ndarray, copied: Sequence[float]
) -> tuple[int, ...]:
    """Return the source position of each copied token, -1 for tokens that were not copied.

    Args:
        source: token ids of the source (S). ids: token ids of the summary (T).
        attention: attention weights (T, S).
        copied: copy probability of each token (T).
    """
    weights = np.where(np.equal.outer(list(ids), list(source)), attention, -1.0)
    positions = weights.argmax(axis=1) if len(ids) else np.zeros(0, int)
    in_source = weights.max(axis=1, initial=-1.0) >= 0
    is_copied = (np.asarray(copied, "float64") >= COPIED) & in_source
    return tuple(int(position) for position in np.where(is_copied, positions, -1))
