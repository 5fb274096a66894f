"""Results of translation."""

from __future__ import annotations

from dataclasses import dataclass

from attention_zoo.tasks.result import Result


@dataclass(frozen=True, kw_only=True)
class TranslationResult(Result):
    """A translation with its attention weights.

    Args:
        text: the translation.
        score: the score of the hypothesis: log probability with length and coverage penalty; if the
            source was split into sentences, the sum of their scores.
        tokens: readable labels of the translation's tokens (T), without the end token.
        token_scores: log probability of each token (T), and of the end token if there is one; if
            the source was split into sentences, without end tokens.
        source_tokens: readable labels of the source's tokens (S).
        attention: attention weights (T, S), or None for a model without attention.
        unknown, truncated, alternatives: see `Result`.
    """

    token_scores: tuple[float, ...] = ()
