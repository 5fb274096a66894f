"""Generated images of digits, and digits translated or cluttered on a larger canvas.

`generate_digits` draws strokes with random distortions, 28 by 28 pixels, so that no download is
needed. `translate_digits` and `clutter_digits` create the tasks of Mnih et al. 2014, arXiv
1406.6247, section 4.1, from any set of images, including the generated ones.

A seed gives the same images on every machine: pixels are computed from the random numbers by sums,
products, quotients and roots only, which every machine rounds in the same way.
"""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.synthetic.slots import RandomBelow
from attention_zoo.data.synthetic.splits import make_randbelow
from attention_zoo.ops.arguments import whole_number
from attention_zoo.registry import check_known

SIDE, INK = 28, 20.0
"""Side of a generated image, and average height of its digit, in pixels."""
SPLITS = ("train", "validation", "test")
CHUNK = 256
Stroke = tuple[tuple[float, float], ...]
"""Points (x to the right, y downwards), from (0, 0) to (1, 1)."""


class Digits(NamedTuple):
    """Images of digits, and their labels.

    images: `(N, H, W, C)` uint8, white on black. labels: `(N,)` int64.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


def _make_loop(middle: float, width: float, height: float) -> Stroke:
    """Return a closed curve around (0.5, middle), with half-axes `width` and `height`."""
    circle = [(0.0, -1.0), (0.5, -0.866), (0.866, -0.5)]
    while len(circle) < 12:
        x, y = circle[-3]
        circle.append((-y, x))
    return tuple((0.5 + width * x, middle + height * y) for x, y in [*circle, circle[0]])


def _parse_stroke(points: str) -> Stroke:
    """Return the points of a text "x,y x,y ...", in hundredths."""
    pairs = (point.split(",") for point in points.split())
    return tuple((int(x) / 100, int(y) / 100) for x, y in pairs)


_BELLY = "68,53 80,71 69,90 44,96 20,86"
_SIX = _parse_stroke("70,6 46,18 29,42 23,68 34,90 55,96 74,86 78,69 66,54 45,53 26,66")
STROKES: tuple[tuple[Stroke, ...], ...] = (
    (_make_loop(0.5, 0.31, 0.45),),
    (_parse_stroke("34,22 55,5 55,95"),),
    (_parse_stroke("20,28 27,12 46,5 68,11 76,28 66,48 20,94 82,94"),),
    (_parse_stroke(f"22,15 45,5 69,12 74,30 62,44 42,48 {_BELLY}"),),
    (_parse_stroke("60,5 18,62 86,62"), _parse_stroke("64,36 64,95")),
    (_parse_stroke(f"78,6 31,6 26,46 50,41 {_BELLY}"),),
    (_SIX,),
    (_parse_stroke("18,7 82,7 42,95"),),
    (_make_loop(0.27, 0.22, 0.22), _make_loop(0.72, 0.28, 0.23)),
    (tuple((1 - x, 1 - y) for x, y in _SIX),),
)
"""Strokes of each digit."""
POINTS = max(sum(len(stroke) for stroke in digit) for digit in STROKES)
NUM_STYLE_VALUES = 8
"""Number of random values that control the style of a whole digit."""


def generate_digits(size: int, split: str = "train", seed: int = 1) -> Digits:
    """Generate images of handwritten-style digits. A set of size n is a prefix of any larger one.

    Args:
        size: number of images.
        split: "train", "validation" or "test", which share no image.
        seed: seed of the set.

    Returns:
        Images `(size, 28, 28, 1)` and their labels, 0 to 9, uniformly distributed.

    Raises:
        ValueError: a size below 1, an unknown split.
    """
    whole_number("size", size)
    check_known("digits: unknown split", [split], SPLITS)
    numbers = random.Random(f"digits/{split}/{seed}").random
    shape = size, 1 + NUM_STYLE_VALUES + 2 * POINTS
    random_values = np.array([numbers() for _ in range(math.prod(shape))]).reshape(shape)
    labels = (random_values[:, 0] * len(STROKES)).astype("int64")
    images = np.zeros((size, SIDE, SIDE, 1), "uint8")
    for digit in range(len(STROKES)):
        rows = np.flatnonzero(labels == digit)
        for first in range(0, len(rows), CHUNK):
            chunk = rows[first : first + CHUNK]
            images[chunk, :, :, 0] = _draw_digit(digit, 2 * random_values[chunk, 1:] - 1)
    return Digits(images, labels)


def _draw_digit(digit: int, random_values: NDArray[Any]) -> NDArray[np.uint8]:
    """Draw a digit once for each row of `random_values`, numbers from -1 to 1: `(n, 28, 28)`."""
    turn, slant, wide, high, right, down, pen, ink = random_values.T[:NUM_STYLE_VALUES, :, None]
    points = np.array([point for stroke in STROKES[digit] for point in stroke])
    shake = random_values[:, NUM_STYLE_VALUES:][:, : points.size].reshape(-1, *points.shape)
    x = INK * (1 + 0.2 * wide) * (points[:, 0] - 0.5 + 0.03 * shake[..., 0])
    y = INK * (1 + 0.1 * high) * (points[:, 1] - 0.5 + 0.03 * shake[..., 1])
    x = x - 0.25 * slant * y
    half = 0.12 * turn  # the tangent of half the angle
    cosine, sine = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)
    x, y = cosine * x - sine * y, sine * x + cosine * y
    x, y = x + SIDE / 2 + 1.5 * right, y + SIDE / 2 + 1.5 * down
    squared_distance = np.full((len(random_values), SIDE, SIDE), np.inf)
    first = 0
    for stroke in STROKES[digit]:
        for k in range(first, first + len(stroke) - 1):
            ends = x[:, k : k + 2], y[:, k : k + 2]
            squared_distance = np.minimum(squared_distance, _compute_squared_distance(*ends))
        first += len(stroke)
    intensity = np.clip(1.3 + 0.4 * pen[..., None] + 0.5 - np.sqrt(squared_distance), 0.0, 1.0)
    return np.floor(intensity * (225.0 + 30.0 * ink[..., None]) + 0.5).astype("uint8")


def _compute_squared_distance(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return the squared distance of each pixel's center from a line segment, `(n, 28, 28)`."""
    centers = np.arange(SIDE) + 0.5
    (x0, x1), (y0, y1) = (z.T[..., None, None] for z in (x, y))
    along, down = x1 - x0, y1 - y0
    right, below = centers - x0, centers[:, None] - y0
    share = (right * along + below * down) / np.maximum(along * along + down * down, 1e-6)
    share = np.clip(share, 0.0, 1.0)
    across, up = right - share * along, below - share * down
    return across * across + up * up


def translate_digits(images: Any, labels: Any, size: int = 60, seed: int = 1) -> Digits:
    """Place each image at a uniformly random position on a black square canvas.

    Args:
        images: `(N, H, W)` or `(N, H, W, C)`, uint8, white on black.
        labels: `(N,)`, integers.
        size: side of the canvas in pixels.
        seed: seed of the positions.

    Returns:
        Images `(N, size, size, C)` and their labels, in the same order.

    Raises:
        ValueError: invalid images or labels, a canvas smaller than the images.
    """
    digits = _check_images(images, labels, size)
    randbelow = make_randbelow(f"translated/{seed}")
    return _scatter(digits, size, clutter=0, patch=0, randbelow=randbelow)


def clutter_digits(
    images: Any, labels: Any, size: int = 60, clutter: int = 4, patch: int = 8, seed: int = 1
) -> Digits:
    """Place each image at a random position on a black square canvas, with patches of other images.

    Overlapping pixels have the maximum of their values.

    Args:
        images, labels, size, seed: as in `translate_digits`.
        clutter: number of patches on each canvas.
        patch: side of a patch in pixels. A patch is cut at a random position from another image, or
            from the same one if it is the only image.

    Returns:
        Images `(N, size, size, C)` and their labels, in the same order.

    Raises:
        ValueError: as `translate_digits`, and for patches larger than the images.
    """
    digits = _check_images(images, labels, size)
    whole_number("clutter", clutter, low=0)
    height, width = digits.images.shape[1:3]
    if whole_number("patch", patch) > min(height, width) and clutter:
        raise ValueError(
            f"patch must not exceed the image size of {height} x {width} pixels, got {patch}"
        )
    return _scatter(digits, size, clutter, patch, make_randbelow(f"cluttered/{seed}"))


def _scatter(digits: Digits, size: int, clutter: int, patch: int, randbelow: RandomBelow) -> Digits:
    """Paste each image on a canvas, followed by `clutter` patches of other images."""
    count, *sides, channels = digits.images.shape
    canvases = np.zeros((count, size, size, channels), "uint8")
    for row, canvas in enumerate(canvases):
        _paste(canvas, digits.images[row], randbelow)
        for _ in range(clutter):
            other = digits.images[(row + 1 + randbelow(max(count - 1, 1))) % count]
            top, left = (randbelow(side - patch + 1) for side in sides)
            _paste(canvas, other[top : top + patch, left : left + patch], randbelow)
    return Digits(canvases, digits.labels)


def _paste(canvas: NDArray[np.uint8], image: NDArray[np.uint8], randbelow: RandomBelow) -> None:
    """Paste an image at a random position on a canvas, by pixelwise maximum."""
    height, width = image.shape[:2]
    top, left = (randbelow(len(canvas) - side + 1) for side in (height, width))
    below = canvas[top : top + height, left : left + width]
    np.maximum(below, image, out=below)


def _check_images(images: Any, labels: Any, size: int) -> Digits:
    """Return the images with a channel axis; raise ValueError for invalid arrays or sizes."""
    images, labels = np.asarray(images), np.asarray(labels)
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise ValueError(
            "images must be (N, H, W) or (N, H, W, C) of uint8, got shape"
            f" {images.shape} of {images.dtype}"
        )
    if labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
        raise ValueError(
            f"labels must be ({len(images)},) of integers, got shape {labels.shape} of"
            f" {labels.dtype}"
        )
    if whole_number("size", size) < max(images.shape[1:3]):
        raise ValueError(
            f"size must be at least the image size of {images.shape[1]} x {images.shape[2]} pixels,"
            f" got {size}"
        )
    channels = images if images.ndim == 4 else images[..., None]
    return Digits(channels, labels.astype("int64"))
