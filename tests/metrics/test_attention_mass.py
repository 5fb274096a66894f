"""Attention within boxes, by hand on small grids, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.metrics import BoxMass, mass_in_boxes
from tests.refusals import refuses

DOG = (0.25, 0.5, 1.0, 1.0)  # of 2 x 2 cells half of the upper right one, and the lower right one


def test_cells_count_by_the_share_that_is_covered() -> None:
    weights = np.array([[[9.0, 9.0], [9.0, 9.0]], [[0.1, 0.4], [0.2, 0.3]]])
    found = mass_in_boxes([weights], [["a", "dog"]], [{"dog": DOG}])
    assert found == (pytest.approx(0.4 / 2 + 0.3), pytest.approx((1 / 2 + 1) / 4), 1)


def test_a_box_within_one_cell_of_an_oblong_grid() -> None:
    """Of the 3 x 2 cells the box covers half the height and a quarter of the width of one."""
    weights = np.arange(6.0).reshape(1, 3, 2) / 15
    found = mass_in_boxes([weights], [["cat"]], [{"cat": (0.5, 0.625, 2 / 3, 0.75)}])
    assert found == (pytest.approx(3 / 15 / 8), pytest.approx(1 / 6 / 8), 1)


def test_every_naming_word_counts_once() -> None:
    """Two words of one image and one of the other; the third caption names what is not there."""
    left, right = [[1.0, 0.0]], [[0.25, 0.75]]
    boxes = {"cat": (0.0, 0.0, 1.0, 0.5), "dog": (0.0, 0.5, 1.0, 1.0)}
    attention = [np.array([left, right, right]), np.array([right, right]), np.zeros((0, 1, 2))]
    tokens = [["dog", "and", "cat"], ["a", "dog"], []]
    found = mass_in_boxes(attention, tokens, [boxes, boxes, boxes])
    assert found == (pytest.approx((0 + 0.25 + 0.75) / 3), pytest.approx(0.5), 3)
    everywhere = {"dog": (0.0, 0.0, 1.0, 1.0)}
    assert mass_in_boxes([np.array([right])], [["dog"]], [everywhere]) == BoxMass(1.0, 1.0, 1)
    assert mass_in_boxes([np.array([right])], [["fish"]], [boxes]) == BoxMass(0.0, 0.0, 0)


@refuses(
    ([], [], [], "there are 0 attention, 0 tokens, 0 boxes: give at least one"),
    ([np.zeros((1, 2, 2))], [["a"], ["b"]], [{}], "there are 1 attention, 2 tokens, 1 boxes"),
    ([np.zeros((2, 2, 2))], [["a"]], [{}], r"image 0 has shape \(2, 2, 2\): expected \(1, h, w\)"),
    ([np.ones((1, 1, 1))], [["a"]], [{"a": (0, 10, 64, 30)}], "box of 'a' in image 0 is"),
    ([np.ones((1, 1, 1))], [["a"]], [{"a": (0, 0.5, 1, 0.5)}], "expected top < bottom and left"),
    ([np.full((1, 1, 1), np.nan)], [["a"]], [{"a": (0, 0, 1, 1)}], "attention of 'a' in image 0 "),
    ([np.full((1, 1, 2), 4.5)], [["a"]], [{"a": (0, 0, 1, 1)}], "and sum 9.0: expected weights"),
    ([np.array([[[-1.0, 2.0]]])], [["a"]], [{"a": (0, 0, 1, 1)}], "minimum -1.0 and sum 1"),
    ([np.ones((1, 0, 3))], [["a"]], [{"a": (0, 0, 1, 1)}], r"\(1, 0, 3\): expected \(1, h, w\)"),
    ([np.ones((1, 1, 1))], [["a"]], [{"a": (0, 0, 1)}], r"box of 'a' in image 0 is \(0, 0, 1\)"),
    ([np.zeros((1, 4))], [["a"]], [{}], r"image 0 has shape \(1, 4\): expected \(1, h, w\)"),
)
def test_what_is_refused(attention: list, tokens: list, boxes: list) -> None:
    mass_in_boxes(attention, tokens, boxes)
