"""The generated corpus `scenes`: pictures of one to four things, and what is seen on them.

    at the upper left a small red ring
    at the upper left a small red ring and to its right a large blue star
    in the upper right is a large blue star and left of it a small red ring

Each thing of a picture stands in a quarter of its own on a grey ground, and no two are of one
shape. Captions tell of a thing that is alone, or of two that are beside or above each other, and
say all that there is to say of them: where they are, size, colour and shape. That comes in this
order, as attention that moves from word to word is to be told where before it can see what. The
boxes of all things are known, so it can be measured whether a model looks at what it names.

All captions of a picture are of one split alone: whatever the sizes and seeds, no other split has a
picture of the same ones. `unseen` has things that no other split has: training sees small red
things, small circles and large red circles, but no small red circle.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.captions import Box, CaptionedImages
from attention_zoo.data.drawn_shapes import SHAPES, box_of, coverage
from attention_zoo.data.slots import Pick
from attention_zoo.data.splits import Drawn, Parts, draw_sentences

SPLITS = {
    "train": range(80),
    "validation": range(80, 90),
    "test": range(90, 100),
    "unseen": range(100),  # all of them: its things are in no other split
}
"""Of 100 hash values, those of each split."""

SIDE = 64  # pixels
UNIT = 4  # places and radii are in quarters of a pixel
EDGE = 2 * UNIT  # what stays free at least around a thing in its quarter

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
TINT = 10  # how much a colour's three parts may differ from these
UNSEEN = tuple(
    (
        tuple(SIZES)[(number + number // len(SHAPES)) % 2],
        colour,
        tuple(SHAPES)[number % len(SHAPES)],
    )
    for number, colour in enumerate(COLOURS)
)
"""Things that only `unseen` has, and that has no others: one of each colour."""
SEEN = tuple(
    (size, colour, shape)
    for size in SIZES
    for colour in COLOURS
    for shape in SHAPES
    if (size, colour, shape) not in UNSEEN
)

GREYS, SLOPES = range(100, 151), range(-24, 25)
"""The ground in the upper left corner, and what comes to it up to each of the other sides."""
NOISE = 8  # at most, up or down

QUARTERS = {
    "upper left": (0, 0),
    "upper right": (0, 1),
    "lower left": (1, 0),
    "lower right": (1, 1),
}
"""Row and column of each."""
BESIDE = ((0, 1), (2, 3), (0, 2), (1, 3))
"""The quarters that captions tell of together."""
FROM_IT = {
    "right": ("to its right", "right of it"),
    "left": ("to its left", "left of it"),
    "below": ("below it", "under it"),
    "above": ("above it", "over it"),
}
"""Where another thing is, in two wordings each."""
TAKEN = {
    1: ((0,), (1,), (2,), (3,)),
    2: BESIDE,
    3: ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)),
    4: ((0, 1, 2, 3),),
}
"""The quarters that things may be in, by how many they are."""


Kind = tuple[str, str, str]  # size, colour, shape


class Thing(NamedTuple):
    """One of the things of a scene.

    Attributes:
        size, colour, shape: the words for it.
        quarter: where it is, one of `QUARTERS`.
        row, column: of its middle.
        radius: how far it reaches.
        tint: what is added to the three parts of its colour.
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
    """What a picture shows, down to the last pixel.

    Attributes:
        things: by their quarters.
        ground: grey in the upper left corner, and what comes to it down and to the right.
    """

    things: tuple[Thing, ...]
    ground: tuple[int, ...]

    def captions(self) -> tuple[str, ...]:
        """All that are right: two of a thing alone, else two from each to each one beside it."""
        return _told({thing.quarter: thing.kind for thing in self.things})


def generate_scenes(
    size: int, split: str = "train", seed: int = 1, min_things: int = 1, max_things: int = 4
) -> CaptionedImages:
    """Pictures of 64 x 64 pixels, all different, with 2, 4, 8 or 16 captions.

    A thing alone has 2 captions, and of more each two that are next to each other have 4.
    The boxes of a picture are by the words for its shapes, of which no two are alike.

    Args:
        size: how many; the first n of a larger corpus are the corpus of size n.
        split: "train", "validation", "test", or "unseen" of sizes, colours and shapes that are
            never together elsewhere.
        seed: of the corpus.
        min_things, max_things: of a picture; each number between is as likely as any other.

    Example:
        >>> from attention_zoo.data import generate_scenes
        >>> scenes = generate_scenes(3, "test")
        >>> scenes.images.shape
        (3, 64, 64, 3)
        >>> len(scenes.captions[0]), len(scenes.boxes[0])
        (4, 2)

    Raises:
        ValueError: a size below 1, an unknown split, or no thing or more than 4.
    """

    def draw(count: int, pick: Pick) -> Drawn:
        kinds = _kinds(count, UNSEEN if split == "unseen" else SEEN, pick)
        quarters = TAKEN[count][pick(len(TAKEN[count]))]

        def make() -> tuple[Scene, Scene]:
            scene = _placed(kinds, quarters, pick)
            return scene, scene

        return repr(_told(dict(zip(quarters, kinds, strict=True)))), make

    things = Parts("things", min_things, max_things, limit=4)
    scenes = list(draw_sentences("scenes", split, seed, size, things, draw, SPLITS))
    images = np.empty((size, SIDE, SIDE, 3), np.uint8)
    boxes = [_paint(scene, image) for scene, image in zip(scenes, images, strict=True)]
    return CaptionedImages(
        images,
        [scene.captions() for scene in scenes],
        [str(row) for row in range(size)],
        f"scenes {split} (seed {seed}{_asked(min_things, max_things)})",
        boxes=boxes,
    )


def _told(things: dict[int, Kind]) -> tuple[str, ...]:
    """What can be said of things by their quarters."""
    told = []
    for one, first in things.items():
        place, kind = tuple(QUARTERS)[one], " ".join(first)
        begun = f"at the {place} a {kind}", f"in the {place} is a {kind}"
        if len(things) == 1:
            return begun
        for other, second in things.items():
            if (min(one, other), max(one, other)) in BESIDE:
                words = FROM_IT[_direction(one, other)]
                told += [
                    f"{a} and {b} a {' '.join(second)}" for a, b in zip(begun, words, strict=True)
                ]
    return tuple(told)


def _direction(one: int, other: int) -> str:
    """Where a quarter is, seen from another one beside it."""
    if abs(one - other) == 1:
        return "right" if one < other else "left"
    return "below" if one < other else "above"


def _kinds(count: int, known: tuple[Kind, ...], pick: Pick) -> tuple[Kind, ...]:
    """So many things of different shapes."""
    kinds: list[Kind] = []
    while len(kinds) < count:
        shapes = {shape for _, _, shape in kinds}
        others = [kind for kind in known if kind[2] not in shapes]
        kinds.append(others[pick(len(others))])
    return tuple(kinds)


def _placed(kinds: tuple[Kind, ...], quarters: tuple[int, ...], pick: Pick) -> Scene:
    """These things, each somewhere in its quarter, on some ground."""
    side, places = UNIT * SIDE // 2, tuple(QUARTERS.values())
    things = []
    for kind, quarter in zip(kinds, quarters, strict=True):
        radius = SIZES[kind[0]][pick(len(SIZES[kind[0]]))]
        least = EDGE + radius
        row, column = (side * at + least + pick(side - 2 * least + 1) for at in places[quarter])
        tint = tuple(pick(2 * TINT + 1) - TINT for _ in range(3))
        things.append(Thing(*kind, quarter, row, column, radius, tint))
    ground = tuple(values[pick(len(values))] for values in (GREYS, SLOPES, SLOPES))
    return Scene(tuple(things), ground)


def _asked(least: int, most: int) -> str:
    """How many things pictures have, where not as many as they may."""
    if (least, most) == (1, 4):
        return ""
    return f", {least} to {most} things" if least < most else f", {most} thing{'s' * (most > 1)}"


def _paint(scene: Scene, image: NDArray[np.uint8]) -> dict[str, Box]:
    """Draws the scene into an image; the boxes of its things."""
    grey, down, right = scene.ground
    steps = np.arange(SIDE) / SIDE
    ground = grey + down * steps[:, None] + right * steps[None, :]
    picture = np.repeat(ground[:, :, None], 3, axis=2)
    boxes = {}
    for thing in scene.things:
        place = thing.row / UNIT, thing.column / UNIT, thing.radius / UNIT
        covered = coverage(thing.shape, SIDE, *place)
        colour = np.add(COLOURS[thing.colour], thing.tint)
        picture += covered[:, :, None] * (colour - picture)
        boxes[thing.shape] = box_of(covered)
    grain = random.Random(repr(scene)).randbytes(SIDE * SIDE)
    noise = np.frombuffer(grain, np.uint8).reshape(SIDE, SIDE, 1) * (2 * NOISE / 255) - NOISE
    image[...] = np.rint(np.clip(picture + noise, 0, 255))
    return boxes
