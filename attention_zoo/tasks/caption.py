"""The result of captioning: a caption with its attention over the image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Caption:
    """A generated caption with its attention over the image.

    Args:
        text: the caption.
        score: the score of the hypothesis: log-probability with length penalty.
        tokens: readable labels of the caption's tokens (T), without the end token.
        token_scores: log-probability of each token (T), and of the end token if there is one.
        attention: attention weights (T, h, w) over the image grid, for the step that generates
            each token; None if the grid has one cell.
        cut: True if the search reached the length limit before the end token.
        image: `(H, W, 3)`, uint8, the resized input image.
        alternatives: the next best captions of the same image, best first.
        unknown: always empty; an image has no tokens.
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
