"""The result of captioning: a caption with its attention over the image."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from attention_zoo.tasks.result import Result, make_empty_image


@dataclass(frozen=True, kw_only=True)
class Caption(Result):
    """A generated caption with its attention over the image.

    Args:
        text: the caption.
        score: the score of the hypothesis: log probability with length penalty.
        tokens: readable labels of the caption's tokens (T), without the end token.
        token_scores: log probability of each token (T), and of the end token if there is one.
        attention: attention weights (T, h, w) over the image grid, for the step that generates
            each token; None if the grid has one cell.
        image: `(H, W, 3)`, uint8, the resized input image.
        truncated, alternatives: see `Result`.
    """

    token_scores: tuple[float, ...] = ()
    image: np.ndarray = field(default_factory=make_empty_image)
