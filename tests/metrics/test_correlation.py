"""Pearson and Spearman correlation against SciPy and worked examples."""

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.metrics import pearson_correlation, spearman_correlation
from tests.refusals import refuses


def test_pearson_equals_hand_computed_value() -> None:
    """Deviations are -2, 0, 2 and -1, 2, -1; then -2, -1, 3 and -1, 0, 1."""
    assert pearson_correlation([1, 3, 5], [0, 3, 0]) == pytest.approx(0, abs=1e-15)
    assert pearson_correlation([0, 1, 5], [4, 5, 6]) == pytest.approx(5 / np.sqrt(14 * 2))


def test_spearman_averages_the_ranks_of_ties() -> None:
    """Ranks are 1, 2.5, 2.5, 4 and 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5."""
    assert spearman_correlation([3, 7, 7, 90], [1, 2, 3, 4]) == pytest.approx(np.sqrt(4.5 / 5))
    assert spearman_correlation([1, 2, 3], [-1, -20, -300]) == pytest.approx(-1)


@pytest.mark.parametrize("seed", range(4))
def test_values_equal_scipy(seed: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(seed)
    first = rng.normal(size=50)
    second = 0.5 * first + rng.normal(size=50)
    rounded = first.round(), second.round()  # with ties
    for a, b in ((first, second), rounded, (first + 1e6, second * 1e-9)):
        assert pearson_correlation(a, b) == pytest.approx(stats.pearsonr(a, b)[0], abs=1e-9)
        assert spearman_correlation(a, b) == pytest.approx(stats.spearmanr(a, b)[0], abs=1e-12)


@pytest.mark.parametrize("correlate", [pearson_correlation, spearman_correlation])
def test_constants_are_not_correlated(correlate) -> None:
    for constant in ([0.1] * 3, [0, 0, 0], [1e308] * 3, [-1e-320] * 3):
        assert correlate(constant, [1, 2, 3]) == correlate([1, 2, 3], constant) == 0
        assert correlate(constant, constant) == 0


@pytest.mark.parametrize("correlate", [pearson_correlation, spearman_correlation])
@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1.0, 1e200, 5e307])
def test_scale_and_offset_do_not_matter(correlate, scale: float) -> None:
    numbers = np.array([-3.0, 1.0, 2.0])
    assert correlate(numbers * scale, [0, 2, 2.5]) == pytest.approx(1)
    assert correlate(numbers, numbers) <= 1
    assert correlate([1, 1 + 2**-52], [1, 2]) == pytest.approx(1)


@refuses(
    ([1], [1], r"must be \(N,\) with N of at least 2, got shapes \(1,\) and \(1,\)"),
    ([1, 2], [1, 2, 3], r"got shapes \(2,\) and \(3,\)"),
    ([[1, 2]], [[1, 2]], r"got shapes \(1, 2\) and \(1, 2\)"),
    ([1, np.nan], [1, 2], "predicted must be finite numbers, got nan at index 1"),
    ([1, 2], [np.inf, 2], "references must be finite numbers, got inf at index 0"),
)
def test_invalid_arguments_raise(predicted: list, references: list) -> None:
    for correlate in (pearson_correlation, spearman_correlation):
        with pytest.raises(ValueError) as caught:
            correlate(predicted, references)
    raise caught.value
