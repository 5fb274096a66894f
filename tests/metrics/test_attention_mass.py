"""Attention mass within boxes on small grids, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.metrics import BoxMass, mass_in_boxes
from tests.refusals import refuses

DOG = (0.25, 0.5, 1.0, 1.0)  # half of the upper right and all of the lower right of 2 x 2 cells


def test_cells_are_weighted_by_box_coverage() -> None:
    weights = np.array([[[9.0, 9.0], [9.0, 9.0]], [[0.1, 0.4], [0.2, 0.3]]])
    mass = mass_in_boxes([weights], [["a", "dog"]], [{"dog": DOG}])
    assert mass == (pytest.approx(0.4 / 2 + 0.3), pytest.approx((1 / 2 + 1) / 4), 1)


def test_box_within_one_cell() -> None:
    """The box covers half the height and a quarter of the width of one of 3 x 2 cells."""
    weights = np.arange(6.0).reshape(1, 3, 2) / 15
    mass = mass_in_boxes([weights], [["cat"]], [{"cat": (0.5, 0.625, 2 / 3, 0.75)}])
    assert mass == (pytest.approx(3 / 15 / 8), pytest.approx(1 / 6 / 8), 1)


def test_mass_is_averaged_over_words_with_a_box() -> None:
    """Two words of one image and one of another; the third caption is empty."""
    left, right = [[1.0, 0.0]], [[0.25, 0.75]]
    boxes = {"cat": (0.0, 0.0, 1.0, 0.5), "dog": (0.0, 0.5, 1.0, 1.0)}
    attention = [np.array([left, right, right]), np.array([right, right]), np.zeros((0, 1, 2))]
    tokens = [["dog", "and", "cat"], ["a", "dog"], []]
    mass = mass_in_boxes(attention, tokens, [boxes, boxes, boxes])
    assert mass == (pytest.approx((0 + 0.25 + 0.75) / 3), pytest.approx(0.5), 3)
    whole_image = {"dog": (0.0, 0.0, 1.0, 1.0)}
    assert mass_in_boxes([np.array([right])], [["dog"]], [whole_image]) == BoxMass(1.0, 1.0, 1)
    assert mass_in_boxes([np.array([right])], [["fish"]], [boxes]) == BoxMass(0.0, 0.0, 0)


@refuses(
    ([], [], [], "at least one of each, got 0 attention, 0 tokens, 0 boxes"),
    (
        [np.zeros((1, 2, 2))],
        [["a"], ["b"]],
        [{}],
        "for every sentence, got 1 attention, 2 tokens, 1 boxes",
    ),
    (
        [np.zeros((2, 2, 2))],
        [["a"]],
        [{}],
        r"image 0 must be \(1, h, w\) .*, got shape \(2, 2, 2\)",
    ),
    ([np.ones((1, 1, 1))], [["a"]], [{"a": (0, 10, 64, 30)}], "box of 'a' in image 0 must have"),
    ([np.ones((1, 1, 1))], [["a"]], [{"a": (0, 0.5, 1, 0.5)}], "must have top < bottom and left"),
    ([np.full((1, 1, 1), np.nan)], [["a"]], [{"a": (0, 0, 1, 1)}], "attention of 'a' in image 0 "),
    (
        [np.full((1, 1, 2), 4.5)],
        [["a"]],
        [{"a": (0, 0, 1, 1)}],
        "whose sum is 1, got minimum 4.5 and sum 9",
    ),
    ([np.array([[[-1.0, 2.0]]])], [["a"]], [{"a": (0, 0, 1, 1)}], "minimum -1.0 and sum 1"),
    (
        [np.ones((1, 0, 3))],
        [["a"]],
        [{"a": (0, 0, 1, 1)}],
        r"must be \(1, h, w\) .*, got shape \(1, 0, 3\)",
    ),
    ([np.ones((1, 1, 1))], [["a"]], [{"a": (0, 0, 1)}], r"box of 'a' .*, got \(0, 0, 1\)"),
    ([np.zeros((1, 4))], [["a"]], [{}], r"image 0 must be \(1, h, w\) .*, got shape \(1, 4\)"),
)
def test_invalid_arguments_raise(attention: list, tokens: list, boxes: list) -> None:
    mass_in_boxes(attention, tokens, boxes)
