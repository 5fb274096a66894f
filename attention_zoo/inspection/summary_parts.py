"""What the pictures of a summary show of it, as arrays that fit each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class SummaryParts(NamedTuple):
    """One summary of T tokens of a source of S tokens.

    attention: where each token looked, `(T, S)`; None where the model does not show it.
    copied: how probable it is that each token was copied, `(T,)`.
    origins: from where in the source, `(T,)`; -1 for what the model wrote itself.
    """

    attention: np.ndarray | None
    copied: np.ndarray
    origins: np.ndarray


def summary_parts(answer: Any) -> SummaryParts:
    """The parts of a `tasks.Summary`.

    Raises:
        ValueError: their shapes are not those of its tokens, a number is no probability, an origin
            is no place of the source.
    """
    rows, columns = len(answer.tokens), len(answer.source_tokens)
    copied = _checked("copied", answer.copied, (rows,))
    origins = np.asarray(answer.origins, "int64")
    if origins.shape != (rows,) or not ((origins >= -1) & (origins < columns)).all():
        raise ValueError(
            f"origins are {origins.tolist()}: a place below {columns}, or -1, for each of {rows}"
            " tokens is needed"
        )
    if answer.attention is None:
        return SummaryParts(None, copied, origins)
    return SummaryParts(_checked("attention", answer.attention, (rows, columns)), copied, origins)


def _checked(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Probabilities of that shape; a rounding above 1 is 1."""
    array = np.asarray(values, "float64")
    if array.shape != shape:
        raise ValueError(f"{name} is of shape {array.shape}; the tokens need {shape}")
    if not ((array >= 0) & (array <= 1.001)).all():
        raise ValueError(f"{name} holds what is no probability: give numbers from 0 to 1")
    return np.minimum(array, 1.0)
