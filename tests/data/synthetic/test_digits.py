from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import Digits, clutter_digits, generate_digits, translate_digits
from tests.refusals import refuses

DIGITS = generate_digits(60)


def compute_digest(digits: Digits) -> str:
    return hashlib.sha256(digits.images.tobytes() + digits.labels.tobytes()).hexdigest()[:16]


def test_images_do_not_change() -> None:
    assert compute_digest(DIGITS) == "46689d508990be06"
    assert compute_digest(translate_digits(*DIGITS)) == "a52412fe5bed9ae4"
    assert compute_digest(clutter_digits(*DIGITS)) == "24e7d7ee227c4ce2"


def test_generated_digits_are_uint8_images_with_labels() -> None:
    assert DIGITS.images.shape == (60, 28, 28, 1)
    assert (DIGITS.images.dtype, DIGITS.labels.dtype) == (np.uint8, np.int64)
    assert set(DIGITS.labels) == set(range(10))
    assert (DIGITS.images.max((1, 2, 3)) >= 195).all()
    ink = (DIGITS.images > 99).mean((1, 2, 3))
    assert (ink > 0.03).all()
    assert (ink < 0.35).all()


def test_small_set_is_a_prefix_of_a_large_one() -> None:
    fewer = generate_digits(7)
    np.testing.assert_array_equal(fewer.images, DIGITS.images[:7])
    np.testing.assert_array_equal(fewer.labels, DIGITS.labels[:7])


def test_splits_and_seeds_share_no_image() -> None:
    sets = [DIGITS, *(generate_digits(60, split) for split in ("validation", "test"))]
    sets.append(generate_digits(60, seed=2))
    images = [image.tobytes() for digits in sets for image in digits.images]
    assert len(set(images)) == 240


def test_nearest_neighbour_classifies_the_digits() -> None:
    """Labels match the images, and no two images are equal."""
    train, test = generate_digits(2000), generate_digits(100, "test")
    flat = [x.images.reshape(len(x.images), -1).astype("float32") for x in (train, test)]
    distance = (flat[0] ** 2).sum(1) - 2 * flat[1] @ flat[0].T
    is_correct = train.labels[distance.argmin(1)] == test.labels
    assert is_correct.mean() >= 0.95
    assert (distance.min(1) + (flat[1] ** 2).sum(1)).min() > 0


def make_uniform_images(channels: tuple[int, ...] = ()) -> np.ndarray:
    """Return uniform images of 3 by 2 pixels, each in a different grey, none black."""
    shades = np.arange(1, 201, dtype="uint8").reshape(-1, *(1,) * (2 + len(channels)))
    return np.broadcast_to(shades, (200, 3, 2, *channels)).copy()


@pytest.mark.parametrize("channels", [(), (3,)])
def test_translate_digits_covers_all_positions(channels: tuple[int, ...]) -> None:
    images, labels = make_uniform_images(channels), np.arange(200, dtype="uint8")
    result = translate_digits(images, labels, size=5)
    assert result.images.shape == (200, 5, 5, *(channels or (1,)))
    np.testing.assert_array_equal(result.labels, labels)
    positions = set()
    for shade, image in enumerate(result.images[..., 0], 1):
        rows, columns = np.nonzero(image)
        top, left = rows.min(), columns.min()
        positions.add((int(top), int(left)))
        assert (image[top : top + 3, left : left + 2] == shade).all()
        assert len(rows) == 6
    assert positions == {(top, left) for top in range(3) for left in range(4)}
    assert compute_digest(translate_digits(images, labels, 5, seed=2)) != compute_digest(result)


def test_canvas_of_image_size_leaves_images_unchanged() -> None:
    np.testing.assert_array_equal(translate_digits(*DIGITS, size=28).images, DIGITS.images)


def test_clutter_digits_adds_patches_of_other_images() -> None:
    images, labels = make_uniform_images(), np.arange(200)
    result = clutter_digits(images, labels, size=40, clutter=3, patch=2)
    num_patches = 0
    for shade, image in enumerate(result.images[..., 0], 1):
        assert 1 <= (image == shade).sum() <= 6
        num_patches += len(set(np.unique(image)) - {0, shade})
        assert ((image > 0) & (image != shade)).sum() <= 3 * 4
    assert num_patches > 2.8 * 200
    without_clutter = clutter_digits(images, labels, size=40, clutter=0)
    assert ((without_clutter.images > 0).sum((1, 2, 3)) == 6).all()


def test_single_image_is_cluttered_with_its_own_patches() -> None:
    result = clutter_digits(*(x[:1] for x in DIGITS), size=90, clutter=30)
    assert (result.images > 0).sum() > (DIGITS.images[:1] > 0).sum()


def test_empty_sets_stay_empty() -> None:
    for transform in (translate_digits, clutter_digits):
        result = transform(*(x[:0] for x in DIGITS), size=40)
        assert result.images.shape == (0, 40, 40, 1)
        assert result.labels.shape == (0,)


@refuses(
    ({"images": DIGITS.images / 255}, r"uint8, got shape \(60, 28, 28, 1\) of float64"),
    ({"images": DIGITS.images[0, 0]}, r"images must be \(N, H, W\) or .* got shape \(28, 1\)"),
    ({"labels": DIGITS.labels[:3]}, r"labels must be \(60,\) of integers, got shape \(3,\)"),
    ({"labels": DIGITS.labels / 2}, "of float64"),
    ({"size": 27}, "size must be at least the image size of 28 x 28 pixels, got 27"),
    ({"patch": 29}, "patch must not exceed .* of 28 x 28 pixels, got 29"),
    ({"patch": 0}, "patch must be at least 1, got 0"),
    ({"clutter": -1}, "clutter must be at least 0, got -1"),
)
def test_invalid_arguments_raise(arguments: dict[str, Any]) -> None:
    clutter_digits(**{"images": DIGITS.images, "labels": DIGITS.labels, **arguments})


def test_invalid_split_or_size_raises() -> None:
    with pytest.raises(ValueError, match="digits: unknown split 'tests'; did you mean 'test'"):
        generate_digits(5, "tests")
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        generate_digits(0)
