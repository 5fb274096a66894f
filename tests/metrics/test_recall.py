"""Recall at k of a few images and texts, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.metrics import RecallAtK, recall_at_k
from tests.refusals import refuses

SIMILARITIES = np.array(
    [
        [0.9, 0.1, 0.3, 0.5, 0.6],
        [0.2, 0.8, 0.4, 0.7, 0.1],
        [0.3, 0.9, 0.2, 0.1, 0.5],
    ]
)
IMAGE_OF_TEXT = [0, 0, 1, 2, 2]


def test_recall_equals_hand_computed_value() -> None:
    """Ranks of the images of texts: 1, 3, 1, 3, 2; of the first texts of images: 1, 3, 2."""
    recall = recall_at_k(SIMILARITIES, IMAGE_OF_TEXT, k=(1, 2, 3))
    assert recall.image == pytest.approx({1: 40, 2: 60, 3: 100})
    assert recall.text == pytest.approx({1: 100 / 3, 2: 200 / 3, 3: 100})
    assert (recall.image_median_rank, recall.text_median_rank) == (2, 2)


def test_ties_rank_before_the_correct_item() -> None:
    recall = recall_at_k(np.zeros((4, 4)), range(4), k=(1, 3, 4))
    assert recall == RecallAtK({1: 0, 3: 0, 4: 100}, {1: 0, 3: 0, 4: 100}, 4, 4)
    recall = recall_at_k(np.zeros((2, 3)), [0, 0, 1], k=(1, 2, 3))
    assert recall.image == {1: 0, 2: 100, 3: 100}
    assert recall.text == {
        1: 0,
        2: 50,
        3: 100,
    }  # one wrong text for the first image, two for the other


def test_image_without_texts_is_only_a_candidate() -> None:
    recall = recall_at_k([[0.5], [0.6]], [0], k=(1, 2))
    assert recall == RecallAtK({1: 0, 2: 100}, {1: 100, 2: 100}, 2, 1)
    assert recall_at_k([[0.5]], [0]).image == {1: 100, 5: 100, 10: 100}


@refuses(
    (np.zeros((0, 0)), [], (1,), r"similarities must be \(images, texts\), got shape \(0, 0\)"),
    (np.zeros(3), [0], (1,), r"similarities must be \(images, texts\), got shape \(3,\)"),
    (SIMILARITIES, [0, 1], (1,), r"image_of_text must be \(5,\), .*, got shape \(2,\)"),
    (SIMILARITIES, [0, 1, 2, 3, 0], (1,), r"image_of_text\[3\] must be from 0 to 2, got 3"),
    (SIMILARITIES, [0, -1, 2, 1, 0], (1,), r"image_of_text\[1\] must be from 0 to 2, got -1"),
    (
        SIMILARITIES,
        [0.0, 1.0, 2.0, 0.0, 0.0],
        (1,),
        "image_of_text must be whole numbers, got float64",
    ),
    (SIMILARITIES * np.nan, IMAGE_OF_TEXT, (1,), "similarities must be numbers, got NaN"),
    (SIMILARITIES, IMAGE_OF_TEXT, (0, 1), r"k must be numbers of at least 1, got \(0, 1\)"),
    (SIMILARITIES, IMAGE_OF_TEXT, 1, "k must be numbers of at least 1, got 1"),
    (SIMILARITIES, IMAGE_OF_TEXT, (), r"k must be numbers of at least 1, got \(\)"),
)
def test_invalid_arguments_raise(similarities: np.ndarray, image_of_text: list, k: tuple) -> None:
    recall_at_k(similarities, image_of_text, k)
