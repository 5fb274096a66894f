"""What a text finds among images: how alike they are, and which word matches which region."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RetrievalResult:
    """An image that a text found.

    Args:
        text: the name of the image.
        score: how well the text and the image match, at most 1 for averages of cosines.
        number: of the image in the index, from 0.
        source: the text.
        source_tokens: readable labels of the text's T tokens.
        tokens: the same; for those who draw where each looked.
        attention: weights (T, h, w) of a grid over the image: where each token looked; of a model
            whose regions look at words, how much each region looked at the token.
        image: `(H, W, 3)`, uint8, what the model saw: resized.
        unknown: positions in `source_tokens` of what the vocabulary has not.
        alternatives: the next best images of the same text, best first.
    """

    text: str
    score: float
    number: int
    source: str
    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    attention: np.ndarray
    image: np.ndarray
    unknown: tuple[int, ...] = ()
    alternatives: tuple[RetrievalResult, ...] = ()


@dataclass(frozen=True)
class ImageIndex:
    """Images that texts can seek: encoded once, by the weights that the model had then.

    Args:
        names: what each image is called.
        images: `(N, H, W, 3)`, uint8, resized.
        regions: `(N, S, D)`, what the model made of them.
    """

    names: tuple[str, ...]
    images: NDArray[np.uint8]
    regions: NDArray[np.floating]

    def __len__(self) -> int:
        return len(self.names)
