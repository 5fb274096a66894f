"""Expected calibration error, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.metrics import expected_calibration_error
from tests.refusals import refuses


def test_error_equals_hand_computed_value() -> None:
    """Of five bins: two of .3 with accuracy 1/2; three of .7, .75, .8 with 2/3; one of .85 with 0.

    The weighted differences are 2/6 .2 + 3/6 (.75 - 2/3) + 1/6 .85.
    """
    probabilities = [0.3, 0.7, 0.75, 0.3, 0.8, 0.85]
    is_correct = [True, False, True, False, True, False]
    expected = 2 / 6 * 0.2 + 3 / 6 * (0.75 - 2 / 3) + 1 / 6 * 0.85
    assert expected_calibration_error(probabilities, is_correct, bins=5) == pytest.approx(
        100 * expected
    )


def test_upper_edges_belong_to_their_bins() -> None:
    """Guo et al.: bin m is ((m - 1) / M, m / M]. In one bin, differences of .2 and -.4 cancel."""
    assert expected_calibration_error([0.2, 0.4], [0, 0], bins=5) == pytest.approx(30)
    assert expected_calibration_error([0.6, 0.4], [1, 0], bins=5) == pytest.approx(40)  # two bins
    assert expected_calibration_error([0.6, 0.41], [1, 0], bins=5) == pytest.approx(0.5)  # one bin
    assert expected_calibration_error([0.0, 0.1], [1, 0], bins=5) == pytest.approx(
        45
    )  # 0 is in the first
    edges = np.arange(1, 16) / 15
    for edge in edges:
        inside = edge - 1 / 30
        error = expected_calibration_error([edge, inside], [1, 0])
        assert error == pytest.approx(50 * abs(1 - edge - inside)), "one bin"


@pytest.mark.parametrize("bins", [1, 7, 15])
def test_error_equals_a_loop_over_bins(bins: int) -> None:
    rng = np.random.default_rng(bins)
    probabilities = rng.random(300)
    is_correct = rng.random(300) < probabilities**2
    expected = 0.0
    for number in range(bins):
        inside = (probabilities > number / bins) & (probabilities <= (number + 1) / bins)
        if inside.any():
            gap = abs(is_correct[inside].mean() - probabilities[inside].mean())
            expected += inside.mean() * gap
    assert expected_calibration_error(probabilities, is_correct, bins) == pytest.approx(
        100 * expected
    )


def test_calibrated_and_overconfident_predictions() -> None:
    assert expected_calibration_error([0.75] * 4, [1, 1, 0, 1]) == 0
    assert expected_calibration_error([1.0] * 4, [0, 0, 0, 0]) == 100
    assert expected_calibration_error(np.float16([1.0005]), [1]) == 0
    assert expected_calibration_error(np.float32([0.9]), np.array([True])) == pytest.approx(
        10, rel=1e-5
    )


@refuses(
    ([], [], 15, r"must be \(N,\) with N of at least 1, got shapes \(0,\) and \(0,\)"),
    ([[0.5, 0.5]], [[1, 1]], 15, r"got shapes \(1, 2\) and \(1, 2\)"),
    ([0.5, 0.5], [True], 15, r"got shapes \(2,\) and \(1,\)"),
    ([0.5, 1.5], [1, 1], 15, "probabilities must be from 0 to 1, got 1.5"),
    ([-0.5], [1], 15, "probabilities must be from 0 to 1, got -0.5"),
    ([np.nan], [1], 15, "probabilities must be from 0 to 1, got nan"),
    ([0.5], [2], 15, "is_correct must be True or False, or 1 or 0, got 2"),
    ([0.5], [1], 0, "bins must be at least 1, got 0"),
)
def test_invalid_arguments_raise(probabilities: list, is_correct: list, bins: int) -> None:
    expected_calibration_error(probabilities, is_correct, bins)
