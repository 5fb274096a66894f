from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from attention_zoo.ops import (
    angles,
    distance_buckets,
    distances,
    linear_slopes,
    rotate,
    shrink,
    sinusoids,
    skew,
    stretch,
    unskew,
)
from tests.layers.running import array, close

SIZES = [(3, 5), (5, 3), (1, 4), (4, 1), (1, 1), (0, 3), (3, 0), (0, 0)]


@pytest.mark.parametrize(("steps", "sources"), SIZES)
def test_skew_gathers_columns_by_distance(steps: int, sources: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, steps, steps + sources + 1)).astype("float32")
    got = array(skew(ops.convert_to_tensor(x), sources))
    assert got.shape == (2, steps, sources)
    for t in range(steps):
        for s in range(sources):
            assert (got[:, t, s] == x[:, t, s - t + steps]).all()


@pytest.mark.parametrize(("steps", "sources"), SIZES)
def test_unskew_inverts_skew(steps: int, sources: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, steps, sources)).astype("float32")
    wide = unskew(ops.convert_to_tensor(x))
    assert tuple(wide.shape) == (2, 3, steps, steps + sources + 1)
    np.testing.assert_array_equal(array(skew(wide, sources)), x)
    assert np.count_nonzero(array(wide)) == x.size


@pytest.mark.parametrize("max_distance", [1, 2, 7])
@pytest.mark.parametrize(("steps", "sources"), SIZES)
def test_stretch_and_shrink_equal_reference(steps: int, sources: int, max_distance: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 2 * max_distance + 1)).astype("float32")
    distances_in_order = np.arange(-steps, sources + 1)
    columns = np.clip(distances_in_order, -max_distance, max_distance) + max_distance
    got = stretch(ops.convert_to_tensor(x), steps, sources)
    np.testing.assert_array_equal(array(got), x[..., columns])
    wide = np.random.default_rng(1).normal(size=(2, 3, distances_in_order.size)).astype("float32")
    expected = np.zeros(x.shape)
    for column, column_index in enumerate(columns):
        expected[..., column_index] += wide[..., column]
    got = shrink(ops.convert_to_tensor(wide), max_distance, steps, sources)
    np.testing.assert_allclose(array(got), expected, atol=1e-6)


def test_distances_equal_hand_computed_values() -> None:
    assert array(distances(2, 3)).tolist() == [[0, 1, 2], [-1, 0, 1]]


def test_rotate_equals_hand_computed_values() -> None:
    """A quarter turn of the first pair, a half turn of the second."""
    x = ops.convert_to_tensor(np.array([[1.0, 2.0, 3.0, 4.0]], "float32"))
    angles_of_turn = ops.convert_to_tensor(np.array([[np.pi / 2, np.pi]], "float32"))
    np.testing.assert_allclose(array(rotate(x, angles_of_turn)), [[-2, 1, -3, -4]], atol=1e-6)


def test_angles_and_sinusoids_equal_hand_computed_values() -> None:
    """With a wavelength of 100 and four features the rates are 1 and 1/10."""
    positions = ops.convert_to_tensor([0, 5])
    got = angles(positions, 4, 100.0, "float32")
    np.testing.assert_allclose(array(got), [[0, 0], [5, 0.5]], rtol=1e-6)
    expected = [0, 1, 0, 1], [math.sin(5), math.cos(5), math.sin(0.5), math.cos(0.5)]
    np.testing.assert_allclose(array(sinusoids(got, 4)), expected, atol=1e-6)
    odd_width = array(sinusoids(angles(positions, 3, 100.0, "float32"), 3))
    rate = 100 ** (-2 / 3)
    np.testing.assert_allclose(
        odd_width[1], [math.sin(5), math.cos(5), math.sin(5 * rate)], atol=1e-6
    )


@pytest.mark.full
@settings(max_examples=50)
@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 300))
def test_rotated_products_depend_on_the_distance_only(first: int, second: int, shift: int) -> None:
    rng = np.random.default_rng(first)
    a, b = (ops.convert_to_tensor(rng.normal(size=(8,)).astype("float32")) for _ in range(2))

    def product(t: int, s: int) -> float:
        rotated = [
            rotate(x, angles(ops.convert_to_tensor(p), 8, 10000.0, "float32"))
            for x, p in ((a, t), (b, s))
        ]
        return float(array(ops.sum(rotated[0] * rotated[1])))

    assert product(first + shift, second + shift) == pytest.approx(product(first, second), abs=2e-3)


def test_slopes_of_powers_of_two() -> None:
    assert linear_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert linear_slopes(1) == [1 / 256]
    close(np.array(linear_slopes(16)), 2 ** (-np.arange(1, 17) / 2), 1e-12)


@pytest.mark.parametrize("heads", [3, 5, 6, 7, 12, 20])
def test_slopes_of_other_head_counts(heads: int) -> None:
    """Slopes of the lower power of two, then every second one of the higher power."""
    below = 2 ** math.floor(math.log2(heads))
    above = linear_slopes(2 * below)
    expected = linear_slopes(below) + [above[i] for i in range(0, 2 * (heads - below), 2)]
    np.testing.assert_allclose(linear_slopes(heads), expected, rtol=1e-12)
    assert len(set(linear_slopes(heads))) == heads


def reference_bucket(distance: int, buckets: int, max_distance: int) -> int:
    """Return the bucket of a distance, from exact fractions of the boundaries."""
    exact = buckets // 2
    if distance < exact:
        return distance
    num_log_buckets = buckets - exact
    ratio = Fraction(distance, exact) ** num_log_buckets
    steps = sum(ratio >= Fraction(max_distance, exact) ** k for k in range(1, num_log_buckets))
    return exact + steps


@pytest.mark.parametrize(
    ("buckets", "max_distance"), [(32, 128), (16, 128), (2, 4), (5, 40), (16, 9), (8, 1000)]
)
def test_buckets_equal_exact_reference(buckets: int, max_distance: int) -> None:
    table = distance_buckets(buckets, max_distance)
    expected = [
        reference_bucket(distance, buckets, max_distance) for distance in range(max_distance + 1)
    ]
    assert table.tolist() == expected
    assert table[-1] == buckets - 1
    assert (np.diff(table) >= 0).all()


def test_buckets_equal_hand_computed_values() -> None:
    """16 buckets to 128: one distance each up to 7, then from 8 * 16^(k / 8) = 8, 11.3, ..."""
    table = distance_buckets(16, 128)
    assert table[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8]
    assert [int(table[d]) for d in (12, 15, 16, 22, 23, 31, 32, 45, 46, 63, 64, 90, 91, 128)] == [
        9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15,
    ]  # fmt: skip
