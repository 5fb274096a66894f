"""The result of glimpses: a class with the path of glimpses over the image."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from attention_zoo.tasks.result import Result, make_empty_image


@dataclass(frozen=True, kw_only=True)
class GlimpseResult(Result):
    """The predicted class of an image, and its glimpses.

    Args:
        text: the predicted class.
        score: its log probability.
        tokens: the class predicted after each of G glimpses; the last one is the result.
        attention: the glimpse locations `(G, 2)`, vertical and horizontal, from -1 (top, left) to 1
            (bottom, right).
        patches: `(G, scales, g, g, C)`, the patches at these locations, from 0 to 1.
        image: `(H, W, C)`, uint8, the model's input.
        probabilities: the probability of each class, by name.
    """

    patches: np.ndarray = field(default_factory=lambda: np.zeros((0, 1, 1, 1, 3), np.float32))
    image: np.ndarray = field(default_factory=make_empty_image)
    probabilities: dict[str, float] = field(default_factory=dict)

    @property
    def locations(self) -> np.ndarray | None:
        """The glimpse locations, as `attention`."""
        return self.attention
