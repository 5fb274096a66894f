"""Shapes by hand: how much they cover of single pixels, in all, and what their boxes are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attention_zoo.data.synthetic.drawn_shapes import SHAPES, box_of, coverage

AREAS = {
    "circle": math.pi,
    "square": 1.76**2,
    "triangle": 1.8 * 0.96,  # half of a base of 2 * 0.96
    "cross": 4 * 0.64 - 0.64**2,
    "star": 1.12257,  # of a pentagram of radius 1: 10 triangles, 1 and 0.381966 at 36 degrees
    "ring": math.pi * (1 - 0.5**2),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_areas_and_reach(shape: str) -> None:
    radius = 20.0
    covered = coverage(shape, 64, 30.25, 33.5, radius)
    assert covered.sum() == pytest.approx(AREAS[shape] * radius**2, rel=0.01)
    solid = box_of(covered >= 0.5)
    reach = np.array([30.25 - radius, 33.5 - radius, 30.25 + radius, 33.5 + radius])
    inside = (64 * np.array(solid) - reach) * (1, 1, -1, -1)
    assert inside.min() > -0.6
    assert inside.max() < 0.25 * radius
    np.testing.assert_allclose(covered[:, 3:], covered[:, :2:-1], atol=1e-12)  # from left to right


def test_single_pixels() -> None:
    """A square of half a side 1.76, whose edge cuts a quarter off the pixels it ends in."""
    covered = coverage("square", 6, 3, 3, 2)
    edge = 0.76
    row = [0, edge, 1, 1, edge, 0]
    assert covered[2] == pytest.approx(row)
    assert covered[1] == pytest.approx([0, edge, edge, edge, edge, 0])
    assert box_of(covered) == (1 / 6, 1 / 6, 5 / 6, 5 / 6)
    ring = coverage("ring", 9, 4.5, 4.5, 4)
    assert (ring[4, 4], ring[4, 1]) == (0, 1)


def test_the_box_of_an_oblong_mask() -> None:
    mask = np.zeros((4, 8))
    mask[1, 2], mask[2, 6] = 0.01, 1
    assert box_of(mask) == (1 / 4, 2 / 8, 3 / 4, 7 / 8)
