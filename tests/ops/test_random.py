"""Draws by counters: uniform, independent of their neighbours, the same every time."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from attention_zoo.ops.random import draw_bits, gumbel, kept, scramble, uniform
from tests.layers.running import array

KEYS = np.arange(50, dtype="int32")


def test_numbers_are_spread_evenly_and_never_0_or_1() -> None:
    draws = array(uniform((3, 1), KEYS, (4, 2000)))
    assert draws.shape == (50, 4, 2000)
    assert draws.min() > 0
    assert draws.max() < 1
    counts, _ = np.histogram(draws, bins=100, range=(0, 1))
    expected = draws.size / 100
    assert ((counts - expected) ** 2 / expected).sum() < 160  # chi-square, 99 degrees


def test_neighbours_have_nothing_in_common() -> None:
    draws = array(uniform((0, 0), KEYS, (40, 50))) - 0.5
    for one, other in (
        (draws[1:], draws[:-1]),
        (draws[:, 1:], draws[:, :-1]),
        (draws[..., 1:], draws[..., :-1]),
        (draws, array(uniform((0, 1), KEYS, (40, 50))) - 0.5),
        (draws, array(uniform((1, 0), KEYS, (40, 50))) - 0.5),
    ):
        correlation = (one * other).mean() / (one.std() * other.std())
        assert abs(correlation) < 5 / np.sqrt(one.size)


def test_the_same_counters_draw_the_same_whatever_else_is_drawn() -> None:
    draws = array(uniform((5, 2), KEYS, (3, 7)))
    np.testing.assert_array_equal(array(uniform((5, 2), KEYS[10:12], (3, 7))), draws[10:12])
    np.testing.assert_array_equal(array(uniform((5, 2), KEYS, (3, 4))), draws[..., :4])
    tensor = ops.convert_to_tensor(np.int32(2))
    np.testing.assert_array_equal(array(uniform((5, tensor), KEYS, (3, 7))), draws)


def test_scrambling_loses_nothing() -> None:
    bits = array(scramble(ops.cast(np.arange(100_000), "uint32")))
    assert len(np.unique(bits)) == 100_000


def test_gumbel_noise_picks_by_shares() -> None:
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    noise = array(gumbel((7,), np.arange(20_000, dtype="int32"), (4,)))
    picked = np.bincount((noise + np.log(shares)).argmax(-1), minlength=4) / 20_000
    np.testing.assert_allclose(picked, shares, atol=0.015)


@pytest.mark.every_backend
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
def test_so_many_are_kept_wherever_they_stand(rate: float) -> None:
    found = array(kept((7, 2), rate, (40, 5, 1000)))
    assert found.shape == (40, 5, 1000)
    spread = 5 * np.sqrt(max(rate * (1 - rate), 1e-12) / 1000)
    assert abs(found.mean() - (1 - rate)) < spread / np.sqrt(40)
    for axes in ((0, 1), (1, 2), (0, 2)):
        count = found.size // found.mean(axes).size
        assert np.abs(found.mean(axes) - (1 - rate)).max() <= 5 * spread * np.sqrt(1000 / count)
    part = array(kept((7, 2), rate, (20, 2, 7), start=(20, 3, 100)))
    np.testing.assert_array_equal(part, found[20:, 3:, 100:107])
    for shape in ((0, 3), (3, 0), ()):
        assert array(kept((7, 2), rate, shape)).shape == shape


def test_a_number_equal_to_the_rate_is_kept() -> None:
    """Kept are bits of at least `rate * 2**32`."""
    bits = array(draw_bits((7, 2), ops.zeros((1,), "uint32"), (5,)))[0]
    found = array(kept((7, 2), float(bits[3]) / 2**32, (5,)))
    assert found.tolist() == (bits >= bits[3]).tolist()


def test_seeds_keep_others() -> None:
    masks = np.stack([array(kept((seed, n), 0.5, (5000,))) for seed in (0, 1) for n in (0, 1, 2)])
    for one in range(len(masks)):
        for other in range(one):
            for lag in range(-3, 4):
                alike = (masks[one] == np.roll(masks[other], lag)).mean()
                assert abs(alike - 0.5) < 5 * 0.5 / np.sqrt(5000)
    again = array(kept(ops.convert_to_tensor(np.array([1, 2], "uint32")), 0.5, (5000,)))
    np.testing.assert_array_equal(again, masks[-1])
