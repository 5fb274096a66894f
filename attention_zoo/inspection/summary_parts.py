"""Checked arrays of a summary for its plots and pages."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class SummaryParts(NamedTuple):
    """Arrays of a summary with T tokens and its source with S tokens.

    Attributes:
        attention: attention weights `(T, S)`; None if the model returns none.
        copied: copy probability of each token, `(T,)`.
        origins: source position of each copied token, `(T,)`; -1 for tokens that were not copied.
    """

    attention: np.ndarray | None
    copied: np.ndarray
    origins: np.ndarray


def check_summary(answer: Any) -> SummaryParts:
    """Return the parts of a `tasks.Summary`.

    Raises:
        ValueError: if shapes do not fit the tokens, a probability is outside 0 to 1, or an origin
            is not a source position or -1.
    """
    rows, columns = len(answer.tokens), len(answer.source_tokens)
    copied = check_probabilities("copied", answer.copied, (rows,))
    origins = np.asarray(answer.origins, "int64")
    if origins.shape != (rows,) or not ((origins >= -1) & (origins < columns)).all():
        raise ValueError(
            f"origins must be source positions below {columns}, or -1, one for each of {rows}"
            f" tokens, got {origins.tolist()}"
        )
    attention = answer.attention
    if attention is not None:
        attention = check_probabilities("attention", attention, (rows, columns))
    return SummaryParts(attention, copied, origins)


def check_probabilities(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return probabilities of this shape; values up to 1.001 (rounding) become 1."""
    array = np.asarray(values, "float64")
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} to match the tokens, got {array.shape}")
    if not ((array >= 0) & (array <= 1.001)).all():
        raise ValueError(
            f"{name} must be probabilities from 0 to 1, got values from {array.min()} to"
            f" {array.max()}"
        )
    return np.minimum(array, 1.0)
