"""Counter-based random numbers: uniform, uncorrelated, reproducible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.ops.random import (
    gumbel,
    random_bits,
    sample_gumbel,
    sample_keep_mask,
    sample_normal,
    sample_uniform,
    scramble,
    uniform,
)
from tests.layers.running import array, compiled

KEYS = np.arange(50, dtype="int32")


def test_uniform_numbers_are_uniform_in_the_open_interval() -> None:
    numbers = array(uniform((3, 1), KEYS, (4, 2000)))
    assert numbers.shape == (50, 4, 2000)
    assert numbers.min() > 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=100, range=(0, 1))
    expected = numbers.size / 100
    assert ((counts - expected) ** 2 / expected).sum() < 160  # chi-square, 99 degrees


def test_neighbouring_numbers_are_uncorrelated() -> None:
    numbers = array(uniform((0, 0), KEYS, (40, 50))) - 0.5
    for first, second in (
        (numbers[1:], numbers[:-1]),
        (numbers[:, 1:], numbers[:, :-1]),
        (numbers[..., 1:], numbers[..., :-1]),
        (numbers, array(uniform((0, 1), KEYS, (40, 50))) - 0.5),
        (numbers, array(uniform((1, 0), KEYS, (40, 50))) - 0.5),
    ):
        correlation = (first * second).mean() / (first.std() * second.std())
        assert abs(correlation) < 5 / np.sqrt(first.size)


def test_numbers_depend_on_counters_and_keys_only() -> None:
    numbers = array(uniform((5, 2), KEYS, (3, 7)))
    np.testing.assert_array_equal(array(uniform((5, 2), KEYS[10:12], (3, 7))), numbers[10:12])
    np.testing.assert_array_equal(array(uniform((5, 2), KEYS, (3, 4))), numbers[..., :4])
    tensor = ops.convert_to_tensor(np.int32(2))
    np.testing.assert_array_equal(array(uniform((5, tensor), KEYS, (3, 7))), numbers)


def test_scramble_is_a_permutation() -> None:
    bits = array(scramble(ops.cast(np.arange(100_000), "uint32")))
    assert len(np.unique(bits)) == 100_000


def test_gumbel_argmax_samples_probabilities() -> None:
    probabilities = np.array([0.5, 0.3, 0.15, 0.05])
    noise = array(gumbel((7,), np.arange(20_000, dtype="int32"), (4,)))
    frequencies = np.bincount((noise + np.log(probabilities)).argmax(-1), minlength=4) / 20_000
    np.testing.assert_allclose(frequencies, probabilities, atol=0.015)


def test_normal_numbers_have_the_moments_of_the_normal_distribution() -> None:
    numbers = array(sample_normal((7, 2), (300, 1000)))
    moments = [(numbers**power).mean() for power in range(1, 5)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3], atol=0.05)
    assert np.abs(numbers).max() > 4


@pytest.mark.parametrize("sample", [sample_uniform, sample_normal, sample_gumbel])
def test_numbers_are_the_same_with_and_without_xla(sample: Any) -> None:
    """TensorFlow's own random floats differ: XLA makes them from other bits."""
    seed = ops.convert_to_tensor(np.array([1, 2], "uint32"))
    numbers = [compiled(lambda seed: sample(seed, (5, 7)), mode)(seed) for mode in ("eager", "xla")]
    np.testing.assert_allclose(*map(array, numbers), rtol=0, atol=1e-5)


@pytest.mark.every_backend
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
def test_dropout_mask_has_the_rate_everywhere(rate: float) -> None:
    mask = array(sample_keep_mask((7, 2), rate, (40, 5, 1000)))
    assert mask.shape == (40, 5, 1000)
    spread = 5 * np.sqrt(max(rate * (1 - rate), 1e-12) / 1000)
    assert abs(mask.mean() - (1 - rate)) < spread / np.sqrt(40)
    for axes in ((0, 1), (1, 2), (0, 2)):
        count = mask.size // mask.mean(axes).size
        assert np.abs(mask.mean(axes) - (1 - rate)).max() <= 5 * spread * np.sqrt(1000 / count)
    mask_part = array(sample_keep_mask((7, 2), rate, (20, 2, 7), start=(20, 3, 100)))
    np.testing.assert_array_equal(mask_part, mask[20:, 3:, 100:107])
    for shape in ((0, 3), (3, 0), ()):
        assert array(sample_keep_mask((7, 2), rate, shape)).shape == shape


def test_bits_equal_to_the_rate_are_kept() -> None:
    """Bits of at least `rate * 2**32` are kept."""
    bits = array(random_bits((7, 2), ops.zeros((1,), "uint32"), (5,)))[0]
    mask = array(sample_keep_mask((7, 2), float(bits[3]) / 2**32, (5,)))
    assert mask.tolist() == (bits >= bits[3]).tolist()


def test_dropout_masks_of_seeds_are_independent() -> None:
    masks = np.stack(
        [array(sample_keep_mask((seed, n), 0.5, (5000,))) for seed in (0, 1) for n in (0, 1, 2)]
    )
    for first in range(len(masks)):
        for second in range(first):
            for lag in range(-3, 4):
                agreement = (masks[first] == np.roll(masks[second], lag)).mean()
                assert abs(agreement - 0.5) < 5 * 0.5 / np.sqrt(5000)
    again = array(sample_keep_mask(ops.convert_to_tensor(np.array([1, 2], "uint32")), 0.5, (5000,)))
    np.testing.assert_array_equal(again, masks[-1])
