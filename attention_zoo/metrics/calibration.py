"""Calibration error of predicted probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

ROUNDING = 0.001
"""Amount by which a half-precision probability may exceed 1."""


def expected_calibration_error(
    probabilities: ArrayLike, is_correct: ArrayLike, bins: int = 15
) -> float:
    """Compute the expected calibration error in percent, 0 to 100; lower is better.

    The predictions are divided by their probability into M bins of equal width, `((m - 1) / M,
    m / M]`; the first one includes 0. The result is `100 sum_m |B_m| / n |acc(B_m) - conf(B_m)|`:
    the mean over the n predictions of the difference between accuracy and mean probability in their
    bin.

    Args:
        probabilities: `(N,)`, the probability of each predicted class.
        is_correct: `(N,)` booleans or 0 and 1, whether the prediction is correct.
        bins: number of bins.

    Returns:
        The error, 0 to 100: 0 if accuracy and mean probability are equal in every bin.

    Example:
        >>> from attention_zoo.metrics import expected_calibration_error
        >>> is_correct = [True, True, True, False]
        >>> round(expected_calibration_error([0.9, 0.9, 0.6, 0.6], is_correct), 6)
        10.0

    Reference:
        Guo et al. 2017, "On calibration of modern neural networks", arXiv:1706.04599, equation 3.

    Raises:
        ValueError: if the arrays are empty or differ in shape, a probability is not from 0 to 1,
            `is_correct` has another value than 0 and 1, or `bins` is below 1.
    """
    confidence, correct = np.asarray(probabilities, np.float64), np.asarray(is_correct)
    if confidence.ndim != 1 or not confidence.size or correct.shape != confidence.shape:
        raise ValueError(
            "probabilities and is_correct must be (N,) with N of at least 1, got shapes"
            f" {confidence.shape} and {correct.shape}"
        )
    if not ((confidence >= 0) & (confidence <= 1 + ROUNDING)).all():
        wrong = confidence[~((confidence >= 0) & (confidence <= 1 + ROUNDING))][0]
        raise ValueError(f"probabilities must be from 0 to 1, got {wrong}")
    if not np.isin(correct, (0, 1)).all():
        wrong = correct[~np.isin(correct, (0, 1))][0]
        raise ValueError(f"is_correct must be True or False, or 1 or 0, got {wrong}")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    upper_edges = np.arange(1, bins + 1) / bins
    bin_of = np.minimum(np.searchsorted(upper_edges, confidence), bins - 1)
    # |B_m| / n |acc - conf| is the absolute sum of the differences in a bin, divided by n.
    differences = np.bincount(bin_of, correct.astype(np.float64) - np.minimum(confidence, 1.0))
    return float(100 * np.abs(differences).sum() / len(confidence))
