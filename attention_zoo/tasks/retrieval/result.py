"""Results of image retrieval, and the index of encoded images."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attention_zoo.tasks.result import Result, make_empty_image


@dataclass(frozen=True, kw_only=True)
class RetrievalResult(Result):
    """An image retrieved for a text.

    Args:
        text: the name of the image.
        score: similarity of text and image; with average pooling, a mean cosine, at most 1.
        number: position of the image in the index, counted from 0.
        source: the text.
        source_tokens: readable labels of the text's T tokens.
        tokens: same as `source_tokens`, for plots.
        attention: attention weights (T, h, w) of each token over the image grid; for a model with
            direction "image_to_text", the weight of the token for each region.
        image: `(H, W, 3)`, uint8, resized.
        unknown: positions of unknown tokens in `source_tokens`.
        alternatives: the next best images of the same text, best first.
    """

    number: int = -1
    source: str = ""
    image: np.ndarray = field(default_factory=make_empty_image)


@dataclass(frozen=True)
class ImageIndex:
    """Images to retrieve from, encoded once, with the model's weights at that time.

    Args:
        names: the name of each image.
        images: `(N, H, W, 3)`, uint8, resized.
        regions: `(N, S, D)`, region features computed by the model.
    """

    names: tuple[str, ...]
    images: NDArray[np.uint8]
    regions: NDArray[np.floating]

    def __len__(self) -> int:
        return len(self.names)
