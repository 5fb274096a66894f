"""Generated corpus `scenes`: images of one to four objects, with captions.

    at the upper left a small red ring
    at the upper left a small red ring and to its right a large blue star
    in the upper right is a large blue star and left of it a small red ring

Each object is in a different quarter of the image, on a grey background. All objects of an image
have different shapes. A caption gives position, size, colour and shape of one object if the image
has only one, else of two objects beside or above each other. The position comes first, so the
decoder knows where to attend before it generates the object's size, colour and shape. The bounding
boxes of all objects are known, so the attention weights of a word can be compared with the box of
its object.

A hash of an image's captions determines its split. So for any sizes and seeds, no two splits have
images with the same captions. `unseen` has objects that do not occur in other splits: training
contains small red objects, small circles and large red circles, but no small red circle.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import cycle, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.images.captions import Box, CaptionedImages
from attention_zoo.data.synthetic.shapes import SHAPES, compute_box, compute_coverage
from attention_zoo.data.synthetic.slots import RandomBelow
from attention_zoo.data.synthetic.splits import Candidate, PartRange, sample_corpus

SPLITS = {
    "train": range(80),
    "validation": range(80, 90),
    "test": range(90, 100),
    "unseen": range(100),  # all hashes: its objects are in no other split
}
"""The hash values, out of 100, of each split."""

SIDE = 64  # pixels
UNIT = 4  # per pixel: positions and radii are in quarters of a pixel
MARGIN = 2 * UNIT  # minimum margin around an object in its quarter

SIZES = {"small": range(32, 38), "large": range(48, 55)}  # radii
COLOURS = {
    "red": (215, 40, 40),
    "green": (40, 160, 60),
    "blue": (45, 80, 220),
    "yellow": (240, 220, 50),
    "orange": (245, 140, 30),
    "purple": (135, 50, 170),
    "black": (20, 20, 20),
    "white": (240, 240, 240),
}
MAX_TINT = 10  # maximum deviation of each channel from `COLOURS`
UNSEEN_KINDS = tuple(
    (tuple(SIZES)[(number + number // len(SHAPES)) % 2], colour, shape)
    for number, (colour, shape) in enumerate(zip(COLOURS, cycle(SHAPES), strict=False))
)
"""All objects of the split `unseen`, one of each colour. No other split has them."""
SEEN_KINDS = tuple(kind for kind in product(SIZES, COLOURS, SHAPES) if kind not in UNSEEN_KINDS)

GREYS, SLOPES = range(100, 151), range(-24, 25)
"""Grey level of the upper left corner, and its change to the bottom and to the right."""
NOISE_AMPLITUDE = 8  # maximum amplitude of the pixel noise

QUARTERS = ("upper left", "upper right", "lower left", "lower right")
"""Names of the quarters; quarter 2 r + c is in row r and column c."""
ADJACENT_QUARTERS = ((0, 1), (2, 3), (0, 2), (1, 3))
"""Pairs of adjacent quarters; a caption describes the objects of one pair."""
DIRECTION_PHRASES = {
    1: ("to its right", "right of it"),
    -1: ("to its left", "left of it"),
    2: ("below it", "under it"),
    -2: ("above it", "over it"),
}
"""Two phrases for the direction from the first object of a caption to the second, by the difference
of their quarters."""
OCCUPIED_QUARTERS = {
    1: ((0,), (1,), (2,), (3,)),
    2: ADJACENT_QUARTERS,
    3: ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)),
    4: ((0, 1, 2, 3),),
}
"""Possible sets of occupied quarters, by the number of objects."""


Kind = tuple[str, str, str]  # size, colour, shape


class Thing(NamedTuple):
    """An object of a scene.

    Attributes:
        size, colour, shape: the words that describe it.
        quarter: index of its quarter in `QUARTERS`.
        row, column: its center, in units of 1 / `UNIT` pixels.
        radius: its radius, in the same units.
        tint: offset of the three channels of its colour.
    """

    size: str
    colour: str
    shape: str
    quarter: int
    row: int
    column: int
    radius: int
    tint: tuple[int, ...]

    @property
    def kind(self) -> Kind:
        return self.size, self.colour, self.shape


class Scene(NamedTuple):
    """Complete description of an image; it determines every pixel.

    Attributes:
        things: the objects, sorted by quarter.
        ground: grey level of the background's upper left corner, and its change to the bottom and
            to the right.
    """

    things: tuple[Thing, ...]
    ground: tuple[int, ...]

    def captions(self) -> tuple[str, ...]:
        """Return all correct captions.

        A single object has two. Otherwise, each object has two with each adjacent object.
        """
        return _make_captions({thing.quarter: thing.kind for thing in self.things})


def generate_scenes(
    size: int, split: str = "train", seed: int = 1, min_things: int = 1, max_things: int = 4
) -> CaptionedImages:
    """Generate images of 64 x 64 pixels, all different, with 2, 4, 8 or 16 captions each.

    An image with one object has 2 captions; with several objects, it has 4 for each adjacent pair.
    The boxes of an image are keyed by the shapes of its objects, which are all different.

    Args:
        size: number of images; a corpus of size n is a prefix of any larger one.
        split: "train", "validation", "test", or "unseen", which has combinations of size, colour
            and shape that do not occur in other splits.
        seed: seed of the corpus.
        min_things, max_things: range of the number of objects in an image, uniformly distributed.

    Example:
        >>> from attention_zoo.data import generate_scenes
        >>> scenes = generate_scenes(3, "test")
        >>> scenes.images.shape
        (3, 64, 64, 3)
        >>> len(scenes.captions[0]), len(scenes.boxes[0])
        (4, 2)

    Raises:
        ValueError: a size below 1, an unknown split, no objects or more than 4.
    """

    def sample(count: int, randbelow: RandomBelow) -> Candidate:
        kinds = _sample_kinds(count, UNSEEN_KINDS if split == "unseen" else SEEN_KINDS, randbelow)
        quarters = OCCUPIED_QUARTERS[count][randbelow(len(OCCUPIED_QUARTERS[count]))]

        def make() -> tuple[Scene, Scene]:
            scene = _sample_scene(kinds, quarters, randbelow)
            return scene, scene

        return repr(_make_captions(dict(zip(quarters, kinds, strict=True)))), make

    things = PartRange("things", min_things, max_things, limit=4)
    scenes = list(sample_corpus("scenes", split, seed, size, things, sample, SPLITS))
    images = np.empty((size, SIDE, SIDE, 3), np.uint8)
    boxes = [_paint(scene, image) for scene, image in zip(scenes, images, strict=True)]
    return CaptionedImages(
        images,
        [scene.captions() for scene in scenes],
        [str(row) for row in range(size)],
        f"scenes {split} (seed {seed}{_format_range(min_things, max_things)})",
        boxes=boxes,
    )


def _make_captions(things: dict[int, Kind]) -> tuple[str, ...]:
    """Return all captions of objects, given by quarter."""
    captions = []
    for quarter, first_kind in things.items():
        position, kind = QUARTERS[quarter], " ".join(first_kind)
        openings = f"at the {position} a {kind}", f"in the {position} is a {kind}"
        if len(things) == 1:
            return openings
        for other_quarter, second_kind in things.items():
            if (min(quarter, other_quarter), max(quarter, other_quarter)) in ADJACENT_QUARTERS:
                phrases = DIRECTION_PHRASES[other_quarter - quarter]
                captions += [
                    f"{a} and {b} a {' '.join(second_kind)}"
                    for a, b in zip(openings, phrases, strict=True)
                ]
    return tuple(captions)


def _sample_kinds(count: int, allowed: Sequence[Kind], randbelow: RandomBelow) -> tuple[Kind, ...]:
    """Sample `count` of the `allowed` kinds of object, with different shapes."""
    kinds: list[Kind] = []
    while len(kinds) < count:
        shapes = {shape for _, _, shape in kinds}
        others = [kind for kind in allowed if kind[2] not in shapes]
        kinds.append(others[randbelow(len(others))])
    return tuple(kinds)


def _sample_scene(kinds: Iterable[Kind], quarters: Iterable[int], randbelow: RandomBelow) -> Scene:
    """Sample a background, and a position, radius and tint of each object within its quarter."""
    side, things = UNIT * SIDE // 2, []
    for kind, quarter in zip(kinds, quarters, strict=True):
        radius = SIZES[kind[0]][randbelow(len(SIZES[kind[0]]))]
        margin = MARGIN + radius
        row, column = (
            side * half + margin + randbelow(side - 2 * margin + 1) for half in divmod(quarter, 2)
        )
        tint = tuple(randbelow(2 * MAX_TINT + 1) - MAX_TINT for _ in range(3))
        things.append(Thing(*kind, quarter, row, column, radius, tint))
    ground = tuple(values[randbelow(len(values))] for values in (GREYS, SLOPES, SLOPES))
    return Scene(tuple(things), ground)


def _format_range(minimum: int, maximum: int) -> str:
    """Format the number of objects for the corpus's `origin`; empty for the default."""
    if (minimum, maximum) == (1, 4):
        return ""
    if minimum == maximum:
        return f", {maximum} thing{'s' * (maximum > 1)}"
    return f", {minimum} to {maximum} things"


def _paint(scene: Scene, image: NDArray[np.uint8]) -> dict[str, Box]:
    """Draw the scene into an image and return the boxes of its objects."""
    grey, down, right = scene.ground
    steps = np.arange(SIDE) / SIDE
    ground = grey + down * steps[:, None] + right * steps[None, :]
    pixels = np.repeat(ground[:, :, None], 3, axis=2)
    boxes = {}
    for thing in scene.things:
        geometry = thing.row / UNIT, thing.column / UNIT, thing.radius / UNIT
        coverage = compute_coverage(thing.shape, SIDE, *geometry)
        colour = np.add(COLOURS[thing.colour], thing.tint)
        pixels += coverage[:, :, None] * (colour - pixels)
        boxes[thing.shape] = compute_box(coverage)
    noise_bytes = random.Random(repr(scene)).randbytes(SIDE * SIDE)
    levels = np.frombuffer(noise_bytes, np.uint8).reshape(SIDE, SIDE, 1)
    noise = levels * (2 * NOISE_AMPLITUDE / 255) - NOISE_AMPLITUDE
    image[...] = np.rint(np.clip(pixels + noise, 0, 255))
    return boxes
