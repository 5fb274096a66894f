"""Coverage of single pixels, areas and bounding boxes of shapes, computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attention_zoo.data.synthetic.shapes import SHAPES, compute_box, compute_coverage

AREAS = {
    "circle": math.pi,
    "square": 1.76**2,
    "triangle": 1.8 * 0.96,  # half of a base of 2 * 0.96
    "cross": 4 * 0.64 - 0.64**2,
    "star": 1.12257,  # of a pentagram of radius 1: 10 triangles, 1 and 0.381966 at 36 degrees
    "ring": math.pi * (1 - 0.5**2),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_area_and_extent(shape: str) -> None:
    radius = 20.0
    coverage = compute_coverage(shape, 64, 30.25, 33.5, radius)
    assert coverage.sum() == pytest.approx(AREAS[shape] * radius**2, rel=0.01)
    solid = compute_box(coverage >= 0.5)
    extent = np.array([30.25 - radius, 33.5 - radius, 30.25 + radius, 33.5 + radius])
    inside = (64 * np.array(solid) - extent) * (1, 1, -1, -1)
    assert inside.min() > -0.6
    assert inside.max() < 0.25 * radius
    np.testing.assert_allclose(
        coverage[:, 3:], coverage[:, :2:-1], atol=1e-12
    )  # from left to right


def test_coverage_of_single_pixels() -> None:
    """The square has half a side of 1.76, so its edge pixels are covered to 76 %."""
    coverage = compute_coverage("square", 6, 3, 3, 2)
    edge = 0.76
    row = [0, edge, 1, 1, edge, 0]
    assert coverage[2] == pytest.approx(row)
    assert coverage[1] == pytest.approx([0, edge, edge, edge, edge, 0])
    assert compute_box(coverage) == (1 / 6, 1 / 6, 5 / 6, 5 / 6)
    ring = compute_coverage("ring", 9, 4.5, 4.5, 4)
    assert (ring[4, 4], ring[4, 1]) == (0, 1)


def test_compute_box_of_a_wide_mask() -> None:
    mask = np.zeros((4, 8))
    mask[1, 2], mask[2, 6] = 0.01, 1
    assert compute_box(mask) == (1 / 4, 2 / 8, 3 / 4, 7 / 8)
