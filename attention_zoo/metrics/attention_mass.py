"""Attention mass within the bounding boxes of named objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_zoo.metrics.check import check_same_length

SUM_TOLERANCE = 0.02
"""Amount by which the sum of half-precision weights may exceed 1."""

Box = tuple[float, float, float, float]  # top, left, bottom, right, in fractions


class BoxMass(NamedTuple):
    """Attention mass within bounding boxes, for the words that name an object with a box.

    Attributes:
        mass: mean over these words, 0 to 1; 0 without words.
        area: mean fraction of the image that the boxes cover, 0 to 1; the mass of uniform
            attention.
        words: number of these words.
    """

    mass: float
    area: float
    words: int


def mass_in_boxes(
    attention: Sequence[ArrayLike],
    tokens: Sequence[Sequence[str]],
    boxes: Sequence[Mapping[str, Box]],
) -> BoxMass:
    """Compute the mean attention mass within the bounding box of the object that a word names.

    A grid cell counts by the fraction of it that the box covers. Words without a box are excluded,
    so objects that are not in the image do not affect the result.

    Args:
        attention: for each image `(L, h, w)`, the attention weights of each of L words over a grid
            on the image, with sum 1.
        tokens: the L words for each image.
        boxes: for each image, the box of each word that names an object: top, left, bottom and
            right as fractions of height and width.

    Example:
        >>> from attention_zoo.metrics import mass_in_boxes
        >>> weights = [[[0.5, 0.5]], [[0.2, 0.8]]]  # two words, one row of two cells
        >>> mass_in_boxes([weights], [["a", "dog"]], [{"dog": (0.0, 0.5, 1.0, 1.0)}])
        BoxMass(mass=0.8, area=0.5, words=1)

    Raises:
        ValueError: if the lists are empty or differ in length, attention weights are invalid or do
            not match the words, or a box is not within the image.
    """
    check_same_length(attention=attention, tokens=tokens, boxes=boxes)
    masses: list[tuple[float, float]] = []
    images = zip(attention, tokens, boxes, strict=True)
    for row, (word_grids, words, word_boxes) in enumerate(images):
        grids = np.asarray(word_grids, np.float64)
        if grids.ndim != 3 or len(grids) != len(words) or 0 in grids.shape[1:]:
            raise ValueError(
                f"attention of image {row} must be ({len(words)}, h, w) for its {len(words)} words,"
                f" got shape {grids.shape}"
            )
        for word, grid in zip(words, grids, strict=True):
            if word in word_boxes:
                _check_box_and_weights(row, word, word_boxes[word], grid)
                coverage = _compute_coverage(word_boxes[word], *grid.shape)
                masses.append((float((grid * coverage).sum()), float(coverage.mean())))
    if not masses:
        return BoxMass(0.0, 0.0, 0)
    mass, area = np.mean(masses, axis=0)
    return BoxMass(float(mass), float(area), len(masses))


def _check_box_and_weights(row: int, word: str, box: Box, grid: NDArray[np.float64]) -> None:
    """Raise ValueError unless the box is within the image and the attention weights are valid."""
    top, left, bottom, right = box if len(box) == 4 else (0.0, 0.0, 0.0, 0.0)
    if not (0 <= top < bottom <= 1 and 0 <= left < right <= 1):
        raise ValueError(
            f"box of {word!r} in image {row} must have top < bottom and left < right in fractions"
            f" of height and width, from 0 to 1, got {tuple(box)}"
        )
    if not np.isfinite(grid).all():
        raise ValueError(
            f"attention of {word!r} in image {row} must be finite, got NaN or infinity"
        )
    if (grid < 0).any() or grid.sum() > 1 + SUM_TOLERANCE:
        raise ValueError(
            f"attention of {word!r} in image {row} must be weights of at least 0 whose sum is 1,"
            f" got minimum {grid.min()} and sum {grid.sum()}"
        )


def _compute_coverage(box: Box, height: int, width: int) -> NDArray[np.float64]:
    """Return the fraction of each cell that a box covers."""
    top, left, bottom, right = box
    return np.outer(_compute_overlap(top, bottom, height), _compute_overlap(left, right, width))


def _compute_overlap(first: float, last: float, cells: int) -> NDArray[np.float64]:
    """Return the fraction in `[first, last]` of each of `cells` equal parts of `[0, 1]`."""
    edges = np.clip(np.arange(cells + 1) / cells, first, last)
    return np.diff(edges) * cells
