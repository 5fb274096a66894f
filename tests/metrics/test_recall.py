"""Recall by hand on a few images and texts, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.metrics import Recalls, recall_at
from tests.refusals import refuses

ALIKE = np.array(
    [
        [0.9, 0.1, 0.3, 0.5, 0.6],
        [0.2, 0.8, 0.4, 0.7, 0.1],
        [0.3, 0.9, 0.2, 0.1, 0.5],
    ]
)
OWNERS = [0, 0, 1, 2, 2]


def test_by_hand() -> None:
    """Ranks of the images of texts: 1, 3, 1, 3, 2; of the first texts of images: 1, 3, 2."""
    found = recall_at(ALIKE, OWNERS, k=(1, 2, 3))
    assert found.image == pytest.approx({1: 40, 2: 60, 3: 100})
    assert found.text == pytest.approx({1: 100 / 3, 2: 200 / 3, 3: 100})
    assert (found.image_median_rank, found.text_median_rank) == (2, 2)


def test_ties_count_against() -> None:
    found = recall_at(np.zeros((4, 4)), range(4), k=(1, 3, 4))
    assert found == Recalls({1: 0, 3: 0, 4: 100}, {1: 0, 3: 0, 4: 100}, 4, 4)
    twins = recall_at(np.zeros((2, 3)), [0, 0, 1], k=(1, 2, 3))
    assert twins.image == {1: 0, 2: 100, 3: 100}
    assert twins.text == {1: 0, 2: 50, 3: 100}  # of the first image one stranger, of the other two


def test_an_image_without_texts_only_distracts() -> None:
    found = recall_at([[0.5], [0.6]], [0], k=(1, 2))
    assert found == Recalls({1: 0, 2: 100}, {1: 100, 2: 100}, 2, 1)
    assert recall_at([[0.5]], [0]).image == {1: 100, 5: 100, 10: 100}


@refuses(
    (np.zeros((0, 0)), [], (1,), r"similarities must be \(images, texts\), got shape \(0, 0\)"),
    (np.zeros(3), [0], (1,), r"similarities must be \(images, texts\), got shape \(3,\)"),
    (ALIKE, [0, 1], (1,), r"image_of_text has shape \(2,\): expected \(5,\)"),
    (ALIKE, [0, 1, 2, 3, 0], (1,), r"image_of_text\[3\] must be from 0 to 2, got 3"),
    (ALIKE, [0, -1, 2, 1, 0], (1,), r"image_of_text\[1\] must be from 0 to 2, got -1"),
    (ALIKE, [0.0, 1.0, 2.0, 0.0, 0.0], (1,), "image_of_text must be whole numbers, got float64"),
    (ALIKE * np.nan, OWNERS, (1,), "some are NaN"),
    (ALIKE, OWNERS, (0, 1), r"k must be numbers of at least 1, got \(0, 1\)"),
    (ALIKE, OWNERS, 1, "k must be numbers of at least 1, got 1"),
    (ALIKE, OWNERS, (), r"k must be numbers of at least 1, got \(\)"),
)
def test_what_is_refused(alike: np.ndarray, owners: list, k: tuple) -> None:
    recall_at(alike, owners, k)
