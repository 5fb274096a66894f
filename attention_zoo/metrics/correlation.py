"""Pearson and Spearman correlation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def pearson_correlation(predicted: ArrayLike, references: ArrayLike) -> float:
    """Compute the Pearson correlation of two lists of numbers, -1 to 1; 0 if one is constant.

    It is the covariance divided by the product of the standard deviations, which is not defined for
    a constant. A model that predicts a constant is not correlated with anything, hence 0.

    Args:
        predicted, references: `(N,)`, N at least 2.

    Returns:
        The correlation, -1 to 1; 0 if all predictions or all references are equal.

    Example:
        >>> from attention_zoo.metrics import pearson_correlation
        >>> round(pearson_correlation([1, 2, 3, 4], [1, 3, 2, 4]), 6)
        0.8

    Reference:
        Pearson 1895, "Notes on regression and inheritance in the case of two parents".

    Raises:
        ValueError: if the shapes are not (N,) with N of at least 2, or a number is not finite.
    """
    return _correlate(*_check_numbers(predicted, references))


def spearman_correlation(predicted: ArrayLike, references: ArrayLike) -> float:
    """Compute the Spearman rank correlation of two lists of numbers, -1 to 1; 0 if one is constant.

    It is the Pearson correlation of their ranks. Equal numbers have the mean of their ranks.

    Args:
        predicted, references: `(N,)`, N at least 2.

    Returns:
        The correlation, -1 to 1; 0 if all predictions or all references are equal.

    Example:
        >>> from attention_zoo.metrics import spearman_correlation
        >>> spearman_correlation([1, 10, 100], [1, 2, 3])
        1.0

    Reference:
        Spearman 1904, "The proof and measurement of association between two things".

    Raises:
        ValueError: if the shapes are not (N,) with N of at least 2, or a number is not finite.
    """
    return _correlate(*map(_compute_ranks, _check_numbers(predicted, references)))


def _correlate(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float(np.clip(_standardize(first) @ _standardize(second), -1.0, 1.0))


def _standardize(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers with mean 0 and norm 1; zeros if they are all equal.

    They are scaled before they are squared, so that no square overflows or vanishes.
    """
    scaled = numbers / (np.abs(numbers).max() or 1.0)
    deviations = scaled - scaled.mean()
    deviations /= np.abs(deviations).max() or 1.0
    deviations -= deviations.mean()
    return deviations / (np.linalg.norm(deviations) or 1.0)


def _compute_ranks(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks from 1, the smallest first; equal numbers have the mean of their ranks."""
    _, group, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last_ranks = counts.cumsum()
    return (last_ranks - (counts - 1) / 2)[group]


def _check_numbers(
    predicted: ArrayLike, references: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both as arrays; raise ValueError if they are invalid."""
    arrays = np.asarray(predicted, np.float64), np.asarray(references, np.float64)
    shapes = [array.shape for array in arrays]
    if arrays[0].ndim != 1 or arrays[0].size < 2 or shapes[0] != shapes[1]:
        raise ValueError(
            "predicted and references must be (N,) with N of at least 2, got shapes"
            f" {shapes[0]} and {shapes[1]}"
        )
    for name, array in zip(("predicted", "references"), arrays, strict=True):
        if not np.isfinite(array).all():
            index = int((~np.isfinite(array)).argmax())
            raise ValueError(f"{name} must be finite numbers, got {array[index]} at index {index}")
    return arrays
