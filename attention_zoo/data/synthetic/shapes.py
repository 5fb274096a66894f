"""Anti-aliased shapes, drawn from distances that are bit-identical on every machine.

Only sums, products, quotients and square roots are used, which every machine rounds in the same
way.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.images.captions import Box

Plane = NDArray[np.float64]

TIP = (math.sqrt(5) - 1) / 4  # cosine of 72 degrees
SIDE = math.sqrt(10 + 2 * math.sqrt(5)) / 4  # its sine
LOW = (math.sqrt(5) + 1) / 4  # cosine of 36 degrees
LOW_SIDE = math.sqrt(10 - 2 * math.sqrt(5)) / 4  # its sine
TIPS = ((0.0, -1.0), (SIDE, -TIP), (-SIDE, -TIP), (LOW_SIDE, LOW), (-LOW_SIDE, LOW))
"""Directions of the five tips of a star: (right, down)."""


def _circle(right: Plane, down: Plane, radius: float) -> Plane:
    return np.sqrt(right * right + down * down) - radius


def _square(right: Plane, down: Plane, radius: float) -> Plane:
    return np.maximum(abs(right), abs(down)) - 0.88 * radius


def _triangle(right: Plane, down: Plane, radius: float) -> Plane:
    sides = (15 * abs(right) - 8 * (down + radius)) / 17  # 8, 15, 17: Pythagorean triple
    return np.maximum(sides, down - 0.8 * radius)


def _cross(right: Plane, down: Plane, radius: float) -> Plane:
    long, short = np.maximum(abs(right), abs(down)), np.minimum(abs(right), abs(down))
    return np.maximum(long - radius, short - 0.32 * radius)


def _star(right: Plane, down: Plane, radius: float) -> Plane:
    """Return the distance to a star.

    A point inside is on the inner side of at least four of the five lines that join the tips.
    """
    distances = [right * x + down * y - TIP * radius for x, y in TIPS]
    return np.sort(distances, axis=0)[-2]


def _ring(right: Plane, down: Plane, radius: float) -> Plane:
    return abs(_circle(right, down, 0.75 * radius)) - 0.25 * radius


SHAPES: dict[str, Callable[[Plane, Plane, float], Plane]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "cross": _cross,
    "star": _star,
    "ring": _ring,
}
"""Distance functions of the shapes, negative inside a shape. Arguments: offsets of points from the
shape's center, to the right and downwards, and the radius. No shape extends beyond its radius to
any of the four sides."""


def compute_coverage(shape: str, side: int, row: float, column: float, radius: float) -> Plane:
    """Return the fraction of each pixel of a square image that a shape covers, 0 to 1.

    Args:
        shape: a key of `SHAPES`.
        side: side of the image in pixels.
        row, column: center of the shape, in pixels from the image's upper left corner.
        radius: radius of the shape in pixels.

    Returns:
        `(side, side)`, rows first.
    """
    centers = np.arange(side, dtype=np.float64) + 0.5
    distance = SHAPES[shape](centers[None, :] - column, centers[:, None] - row, radius)
    return np.clip(0.5 - distance, 0.0, 1.0)


def compute_box(coverage: Plane) -> Box:
    """Return the smallest box that contains every pixel with nonzero coverage."""
    height, width = coverage.shape
    rows, columns = (np.flatnonzero(coverage.any(axis=axis)) for axis in (1, 0))
    return (
        float(rows[0] / height),
        float(columns[0] / width),
        float((rows[-1] + 1) / height),
        float((columns[-1] + 1) / width),
    )
