from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import Digits, cluttered_digits, generate_digits, translated_digits
from tests.refusals import refuses

FEW = generate_digits(60)


def fingerprint(digits: Digits) -> str:
    return hashlib.sha256(digits.images.tobytes() + digits.labels.tobytes()).hexdigest()[:16]


def test_the_same_seed_draws_the_same_on_every_machine() -> None:
    assert fingerprint(FEW) == "46689d508990be06"
    assert fingerprint(translated_digits(*FEW)) == "a52412fe5bed9ae4"
    assert fingerprint(cluttered_digits(*FEW)) == "24e7d7ee227c4ce2"


def test_generated_digits_are_bytes_with_labels() -> None:
    assert FEW.images.shape == (60, 28, 28, 1)
    assert (FEW.images.dtype, FEW.labels.dtype) == (np.uint8, np.int64)
    assert set(FEW.labels) == set(range(10))
    assert (FEW.images.max((1, 2, 3)) >= 195).all()
    ink = (FEW.images > 99).mean((1, 2, 3))
    assert (ink > 0.03).all()
    assert (ink < 0.35).all()


def test_the_first_of_a_larger_set_are_the_smaller_one() -> None:
    fewer = generate_digits(7)
    np.testing.assert_array_equal(fewer.images, FEW.images[:7])
    np.testing.assert_array_equal(fewer.labels, FEW.labels[:7])


def test_splits_and_seeds_share_no_image() -> None:
    sets = [FEW, *(generate_digits(60, split) for split in ("validation", "test"))]
    sets.append(generate_digits(60, seed=2))
    seen = [image.tobytes() for digits in sets for image in digits.images]
    assert len(set(seen)) == 240


def test_digits_are_told_apart_by_the_nearest_of_others() -> None:
    """Their labels say what they show, and no two are written alike."""
    known, asked = generate_digits(2000), generate_digits(100, "test")
    flat = [x.images.reshape(len(x.images), -1).astype("float32") for x in (known, asked)]
    distance = (flat[0] ** 2).sum(1) - 2 * flat[1] @ flat[0].T
    right = known.labels[distance.argmin(1)] == asked.labels
    assert right.mean() >= 0.95
    assert (distance.min(1) + (flat[1] ** 2).sum(1)).min() > 0


def marked(channels: tuple[int, ...] = ()) -> np.ndarray:
    """Images of 3 by 2 pixels, none of them black, each of another grey."""
    shades = np.arange(1, 201, dtype="uint8").reshape(-1, *(1,) * (2 + len(channels)))
    return np.broadcast_to(shades, (200, 3, 2, *channels)).copy()


@pytest.mark.parametrize("channels", [(), (3,)])
def test_translated_digits_stand_whole_and_anywhere(channels: tuple[int, ...]) -> None:
    images, labels = marked(channels), np.arange(200, dtype="uint8")
    got = translated_digits(images, labels, size=5)
    assert got.images.shape == (200, 5, 5, *(channels or (1,)))
    np.testing.assert_array_equal(got.labels, labels)
    places = set()
    for shade, image in enumerate(got.images[..., 0], 1):
        rows, columns = np.nonzero(image)
        top, left = rows.min(), columns.min()
        places.add((int(top), int(left)))
        assert (image[top : top + 3, left : left + 2] == shade).all()
        assert len(rows) == 6
    assert places == {(top, left) for top in range(3) for left in range(4)}
    assert fingerprint(translated_digits(images, labels, 5, seed=2)) != fingerprint(got)


def test_a_square_of_the_digits_own_size_leaves_them() -> None:
    np.testing.assert_array_equal(translated_digits(*FEW, size=28).images, FEW.images)


def test_cluttered_digits_are_digits_among_pieces_of_others() -> None:
    images, labels = marked(), np.arange(200)
    got = cluttered_digits(images, labels, size=40, clutter=3, patch=2)
    pieces = 0
    for shade, image in enumerate(got.images[..., 0], 1):
        assert 1 <= (image == shade).sum() <= 6
        pieces += len(set(np.unique(image)) - {0, shade})
        assert ((image > 0) & (image != shade)).sum() <= 3 * 4
    assert pieces > 2.8 * 200
    bare = cluttered_digits(images, labels, size=40, clutter=0)
    assert ((bare.images > 0).sum((1, 2, 3)) == 6).all()


def test_a_piece_of_an_image_that_is_alone_is_its_own() -> None:
    got = cluttered_digits(*(x[:1] for x in FEW), size=90, clutter=30)
    assert (got.images > 0).sum() > (FEW.images[:1] > 0).sum()


def test_no_images_stay_none() -> None:
    for made in (translated_digits, cluttered_digits):
        got = made(*(x[:0] for x in FEW), size=40)
        assert got.images.shape == (0, 40, 40, 1)
        assert got.labels.shape == (0,)


@refuses(
    ({"images": FEW.images / 255}, r"uint8, got shape \(60, 28, 28, 1\) of float64"),
    ({"images": FEW.images[0, 0]}, r"images must be \(N, H, W\) or .* got shape \(28, 1\)"),
    ({"labels": FEW.labels[:3]}, r"labels must be \(60,\) of integers, got shape \(3,\)"),
    ({"labels": FEW.labels / 2}, "of float64"),
    ({"size": 27}, "size must be at least the image size of 28 x 28 pixels, got 27"),
    ({"patch": 29}, "patch must not exceed .* of 28 x 28 pixels, got 29"),
    ({"patch": 0}, "patch must be at least 1, got 0"),
    ({"clutter": -1}, "clutter must be at least 0, got -1"),
)
def test_misuse_is_refused(given: dict[str, Any]) -> None:
    cluttered_digits(**{"images": FEW.images, "labels": FEW.labels, **given})


def test_unknown_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="digits: unknown split 'tests'; did you mean 'test'"):
        generate_digits(5, "tests")
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        generate_digits(0)
