"""What an image is told with: where the model looked for each word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Caption:
    """One caption, and where the model looked while it wrote it.

    Args:
        text: the caption.
        score: what the search compares: log-probability with length penalty.
        tokens: readable labels of the caption's tokens (T), without the end token.
        token_scores: log-probability of each of them (T), and of the end token where there is one.
        attention: weights (T, h, w) of a grid over the image: where the look before each token
            went; None for a model that looks at no place.
        cut: True when the search stopped at its longest length before the end token.
        image: `(H, W, 3)`, uint8, what the model saw: resized.
        alternatives: the next best captions of the same image, best first.
        unknown: nothing; an image has no words that a vocabulary could lack.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    attention: np.ndarray | None
    cut: bool
    image: np.ndarray
    alternatives: tuple[Caption, ...] = ()
    unknown: tuple[int, ...] = ()
