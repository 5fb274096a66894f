"""The corpus `scenes`: the same everywhere, apart in its splits, and as its captions say."""

from __future__ import annotations

import hashlib
import itertools
import re

import numpy as np
import pytest

from attention_zoo.data import CaptionedImages, generate_scenes
from attention_zoo.data.synthetic.drawn_shapes import SHAPES
from attention_zoo.data.synthetic.scenes import COLOURS, SIZES, SPLITS, UNSEEN
from tests.refusals import refuses

THING = rf"a (small|large) ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})"
CAPTION = re.compile(
    rf"(?:at the|in the) (upper|lower) (left|right) (?:is )?{THING}(?: and (?:to its|)"
    rf" ?(left|right|above|below|over|under) ?(?:of it|it|) {THING})?"
)
STEPS = {"left": (0, -1), "right": (0, 1), "above": (-1, 0), "below": (1, 0)}
ALIKE = {"over": "above", "under": "below"}


@pytest.fixture(scope="module")
def corpora() -> dict[str, CaptionedImages]:
    return {split: generate_scenes(300, split) for split in SPLITS}


def parsed(caption: str) -> dict[tuple[int, int], tuple[str, str, str]]:
    """The things that a caption tells of, by the row and column of their quarters."""
    found = CAPTION.fullmatch(caption)
    assert found, caption
    place = int(found[1] == "lower"), int(found[2] == "right")
    things = {place: found.group(3, 4, 5)}
    if found[6]:
        down, across = STEPS[ALIKE.get(found[6], found[6])]
        things[place[0] + down, place[1] + across] = found.group(7, 8, 9)
    return things


def shown(captions: tuple[str, ...]) -> dict[tuple[int, int], tuple[str, str, str]]:
    """The things that captions tell of, which contradict each other nowhere."""
    together = [thing for caption in captions for thing in parsed(caption).items()]
    assert len(dict(together)) == len(set(together))
    return dict(together)


def quarter(box: tuple) -> tuple[int, int]:
    """The quarter that a box lies in wholly."""
    top, left, bottom, right = (64 * edge for edge in box)
    for start, end in ((top, bottom), (left, right)):
        assert end <= 32 or start >= 32
    return int(top >= 32), int(left >= 32)


def test_a_picture_by_hand() -> None:
    """As a person sees it: the corners and middle of the square and of the triangle, and ground
    between both, above both, beside the triangle's tip and far off."""
    corpus = generate_scenes(1, "test")
    (image,), (boxes,) = corpus.images.astype(int), corpus.boxes
    assert corpus.captions == [
        (
            "at the lower left a small yellow square and to its right a large black triangle",
            "in the lower left is a small yellow square and right of it a large black triangle",
            "at the lower right a large black triangle and to its left a small yellow square",
            "in the lower right is a large black triangle and left of it a small yellow square",
        )
    ]
    pixels = {shape: [round(64 * edge) for edge in box] for shape, box in boxes.items()}
    assert pixels == {"square": [46, 6, 61, 22], "triangle": [37, 34, 60, 59]}
    yellow, black, grey = COLOURS["yellow"], COLOURS["black"], (110, 110, 110)
    for colour, places in (
        (yellow, [(47, 8), (47, 20), (59, 8), (59, 20), (53, 14)]),
        (black, [(41, 46), (50, 46), (57, 37), (57, 55)]),
        (grey, [(53, 26), (44, 14), (33, 46), (42, 40), (42, 52), (10, 40)]),
    ):
        for place in places:
            assert abs(image[place] - colour).max() <= 30, place


def test_pictures_and_names(corpora: dict) -> None:
    for split, corpus in corpora.items():
        assert corpus.images.shape == (300, 64, 64, 3)
        assert corpus.images.dtype == np.uint8
        assert corpus.names[:2] == ["0", "1"]
        assert corpus.origin == f"scenes {split} (seed 1)"
    asked = {(1, 4): "", (1, 1): ", 1 thing", (2, 2): ", 2 things", (1, 3): ", 1 to 3 things"}
    for (least, most), told in asked.items():
        some = generate_scenes(1, "test", 1, min_things=least, max_things=most)
        assert some.origin == f"scenes test (seed 1{told})"


def test_captions_tell_all_that_is_in_the_boxes(corpora: dict) -> None:
    """A thing alone twice, else from each to each of its neighbours twice, in words that differ."""
    for corpus in corpora.values():
        counts = []
        for captions, boxes in zip(corpus.captions, corpus.boxes, strict=True):
            at = {quarter(box): shape for shape, box in boxes.items()}
            assert len(at) == len(boxes)
            assert {place: thing[2] for place, thing in shown(captions).items()} == at
            told = [tuple(parsed(caption)) for caption in captions]
            near = [
                (one, other)
                for one, other in itertools.permutations(at, 2)
                if (one[0] == other[0]) != (one[1] == other[1])
            ]
            assert sorted(told) == sorted(2 * (near or [tuple(at)]))
            assert len(set(captions)) == len(captions)
            counts.append(len(boxes))
        assert min(counts.count(number) for number in (1, 2, 3, 4)) > 45
        assert {*counts} == {1, 2, 3, 4}


def test_boxes_hold_all_that_is_coloured_and_little_else(corpora: dict) -> None:
    """Outside of them all is grey; each of their sides is near something of the colour, be it the
    thin tip of a star."""
    for corpus in corpora.values():
        for image, captions, boxes in zip(
            corpus.images, corpus.captions, corpus.boxes, strict=True
        ):
            ground = image.astype(int)
            for size, colour, shape in shown(captions).values():
                top, left, bottom, right = (round(64 * edge) for edge in boxes[shape])
                part = image[top:bottom, left:right]
                low, high = {"small": (9, 21), "large": (17, 30)}[size]
                assert low < min(part.shape[:2]) <= max(part.shape[:2]) <= high
                apart = abs(part.astype(int) - COLOURS[colour]).max(axis=2)
                assert (apart <= 20).mean() > 0.12
                for edge in (part[:3], part[-3:], part[:, :3], part[:, -3:]):
                    assert (abs(edge.astype(int) - COLOURS[colour]).max(axis=2) < 100).any()
                ground[top:bottom, left:right] = -1
            left_over = ground[ground[:, :, 0] >= 0]
            assert np.ptp(left_over, axis=1).max() == 0
            assert left_over.min() > 40
            assert left_over.max() < 210


def test_splits_share_no_scene(corpora: dict) -> None:
    said = [{*corpus.captions} for corpus in corpora.values()]
    assert sum(map(len, said)) == len(set.union(*said))
    pictures = {image.tobytes() for corpus in corpora.values() for image in corpus.images}
    assert len(pictures) == 4 * 300
    other_seed = {*generate_scenes(300, "test", seed=2).captions}
    assert not other_seed & said[0]


def test_unseen_has_things_that_training_never_has(corpora: dict) -> None:
    kinds = {
        split: [thing for captions in corpus.captions for thing in shown(captions).values()]
        for split, corpus in corpora.items()
    }
    assert {*kinds["unseen"]} == {*UNSEEN}
    assert {*kinds["train"]} == {*itertools.product(SIZES, COLOURS, SHAPES)} - {*UNSEEN}
    assert [{thing[part] for thing in UNSEEN} for part in range(3)] == [
        {*SIZES},
        {*COLOURS},
        {*SHAPES},
    ]
    for part in range(3):
        names = [thing[part] for thing in kinds["train"]]
        assert min(names.count(name) for name in set(names)) > 30


DIGESTS = {
    "train": "002ee4a3d17bd73f",
    "validation": "5f1490956a227747",
    "test": "275eeb1304f3914d",
    "unseen": "cbe7faa46af952e4",
}


@pytest.mark.parametrize("split", SPLITS)
def test_it_never_changes(split: str) -> None:
    """The corpus is part of published results: it may not change unnoticed, on any machine."""
    corpus = generate_scenes(20, split, seed=3)
    shown = corpus.images.tobytes() + repr((corpus.captions, corpus.boxes)).encode()
    assert hashlib.sha256(shown).hexdigest()[:16] == DIGESTS[split]


def test_more_begin_with_the_same_ones(corpora: dict) -> None:
    fewer = generate_scenes(20, "unseen")
    more = corpora["unseen"].take(range(20))
    np.testing.assert_array_equal(fewer.images, more.images)
    assert (fewer.captions, fewer.boxes) == (more.captions, more.boxes)
    assert generate_scenes(20, "unseen", seed=2).captions != fewer.captions


@refuses(
    ({"split": "unsen"}, "scenes: unknown split 'unsen'; did you mean 'unseen'"),
    ({"size": 0}, "size must be an integer of at least 1, got 0"),
    ({"size": 2.5}, "size must be an integer of at least 1, got 2.5"),
    ({"min_things": 0}, "min_things=0, max_things=4: expected 1 <= min_things <= max_things <= 4"),
    ({"max_things": 5}, "min_things=1, max_things=5: expected"),
)
def test_what_is_refused(options: dict) -> None:
    generate_scenes(**{"size": 1, **options})
