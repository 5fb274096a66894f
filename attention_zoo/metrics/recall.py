"""Recall at k of image-text retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class RecallAtK(NamedTuple):
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


def recall_at_k(
    similarities: ArrayLike, image_of_text: Sequence[int] | ArrayLike, k: Sequence[int] = (1, 5, 10)
) -> RecallAtK:
    """Compute recall at k of image retrieval by text and of text retrieval by image.

    Ties rank before the correct item, so that constant similarities are not rewarded. The rank of
    an image query is that of its best text. An image without texts is not a query, but it is a
    candidate for every text query.

    Args:
        similarities: `(I, N)`, of I images with N texts.
        image_of_text: row of the image of each text, from 0.
        k: cut-off ranks.

    Example:
        >>> from attention_zoo.metrics import recall_at_k
        >>> recall = recall_at_k([[0.9, 0.2, 0.8], [0.6, 0.1, 0.7]], [0, 0, 1], k=(1, 2))
        >>> recall.image, recall.text  # the last text is more like the first image than its own
        ({1: 66.66666666666667, 2: 100.0}, {1: 100.0, 2: 100.0})

    Raises:
        ValueError: if there are no texts, their number is not that of the columns, an image index
            is out of range, a similarity is NaN, or a k is below 1.
    """
    similarity, image_index = _check_arguments(similarities, image_of_text, k)
    texts = np.arange(len(image_index))
    correct = similarity[image_index, texts]
    # The correct image is counted too, so the first rank is 1.
    image_ranks = (similarity >= correct).sum(axis=0)
    is_correct = image_index[None, :] == np.arange(len(similarity))[:, None]
    has_texts = is_correct.any(axis=1)
    best_correct = np.where(is_correct, similarity, -np.inf).max(axis=1, keepdims=True)
    text_ranks = 1 + ((similarity >= best_correct) & ~is_correct).sum(axis=1)[has_texts]
    return RecallAtK(
        _compute_recall(image_ranks, k),
        _compute_recall(text_ranks, k),
        float(np.median(image_ranks)),
        float(np.median(text_ranks)),
    )


def _compute_recall(ranks: NDArray[np.int64], k: Sequence[int]) -> dict[int, float]:
    """Return the percentage of ranks that are at most k, by k."""
    return {int(limit): 100 * float((ranks <= limit).mean()) for limit in k}


def _check_arguments(
    similarities: ArrayLike, image_of_text: Sequence[int] | ArrayLike, k: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return similarities and image indices as arrays; raise ValueError if they are invalid."""
    similarity, image_index = np.asarray(similarities, np.float64), np.asarray(image_of_text)
    if similarity.ndim != 2 or not similarity.size:
        raise ValueError(f"similarities must be (images, texts), got shape {similarity.shape}")
    if image_index.shape != similarity.shape[1:]:
        raise ValueError(
            f"image_of_text must be ({similarity.shape[1]},), one image for each text, got shape"
            f" {image_index.shape}"
        )
    if not np.issubdtype(image_index.dtype, np.integer):
        raise ValueError(f"image_of_text must be whole numbers, got {image_index.dtype}")
    is_invalid = (image_index < 0) | (image_index >= len(similarity))
    if is_invalid.any():
        text, last = int(is_invalid.argmax()), len(similarity) - 1
        raise ValueError(f"image_of_text[{text}] must be from 0 to {last}, got {image_index[text]}")
    if np.isnan(similarity).any():
        raise ValueError("similarities must be numbers, got NaN")
    if not np.ndim(k) == 1 or not len(k) or min(k) < 1:
        raise ValueError(f"k must be numbers of at least 1, got {k!r}")
    return similarity, image_index
