"""Recall at k of image-text retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Recalls(NamedTuple):
    """Recall at k in percent, and median ranks.

    Attributes:
        image: image retrieval with text queries, by k.
        text: text retrieval with image queries, by k; any text of the image counts.
        image_median_rank, text_median_rank: ranks start at 1.
    """

    image: dict[int, float]
    text: dict[int, float]
    image_median_rank: float
    text_median_rank: float


def recall_at(
    similarities: ArrayLike, image_of_text: Sequence[int] | ArrayLike, k: Sequence[int] = (1, 5, 10)
) -> Recalls:
    """Compute recall at k of image retrieval by text and of text retrieval by image.

    Ties rank before the correct item, so that constant similarities are not rewarded. The rank of
    an image query is that of its best text. An image without texts is not a query, but it is a
    candidate for every text query.

    Args:
        similarities: `(I, N)`, of I images with N texts.
        image_of_text: row of the image of each text, from 0.
        k: cut-off ranks.

    Example:
        >>> from attention_zoo.metrics import recall_at
        >>> found = recall_at([[0.9, 0.2, 0.8], [0.6, 0.1, 0.7]], [0, 0, 1], k=(1, 2))
        >>> found.image, found.text  # the last text is more like the first image than its own
        ({1: 66.66666666666667, 2: 100.0}, {1: 100.0, 2: 100.0})

    Raises:
        ValueError: if there are no texts, their number is not that of the columns, an image index
            is out of range, a similarity is NaN, or a k is below 1.
    """
    alike, owner = _checked(similarities, image_of_text, k)
    texts = np.arange(len(owner))
    own = alike[owner, texts]
    image_ranks = (alike >= own).sum(axis=0)  # counts the correct image too: the first rank is 1
    belongs = owner[None, :] == np.arange(len(alike))[:, None]
    seekers = belongs.any(axis=1)
    best = np.where(belongs, alike, -np.inf).max(axis=1, keepdims=True)
    text_ranks = 1 + ((alike >= best) & ~belongs).sum(axis=1)[seekers]
    return Recalls(
        _shares(image_ranks, k),
        _shares(text_ranks, k),
        float(np.median(image_ranks)),
        float(np.median(text_ranks)),
    )


def _shares(ranks: NDArray[np.int64], k: Sequence[int]) -> dict[int, float]:
    """Return the percentage of ranks that are at most k, by k."""
    return {int(most): 100 * float((ranks <= most).mean()) for most in k}


def _checked(
    similarities: ArrayLike, image_of_text: Sequence[int] | ArrayLike, k: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return similarities and image indices as arrays; raise ValueError if they are invalid."""
    alike, owner = np.asarray(similarities, np.float64), np.asarray(image_of_text)
    if alike.ndim != 2 or not alike.size:
        raise ValueError(f"similarities must be (images, texts), got shape {alike.shape}")
    if owner.shape != alike.shape[1:]:
        raise ValueError(
            f"image_of_text has shape {owner.shape}: expected ({alike.shape[1]},), one image for"
            " each text"
        )
    if not np.issubdtype(owner.dtype, np.integer):
        raise ValueError(f"image_of_text must be whole numbers, got {owner.dtype}")
    strange = (owner < 0) | (owner >= len(alike))
    if strange.any():
        text = int(strange.argmax())
        raise ValueError(
            f"image_of_text[{text}] must be from 0 to {len(alike) - 1}, got {owner[text]}"
        )
    if np.isnan(alike).any():
        raise ValueError("similarities must be numbers, but some are NaN")
    if not np.ndim(k) == 1 or not len(k) or min(k) < 1:
        raise ValueError(f"k must be numbers of at least 1, got {k!r}")
    return alike, owner
