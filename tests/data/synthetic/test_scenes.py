"""The corpus `scenes`: deterministic, with disjoint splits and correct captions and boxes."""

from __future__ import annotations

import hashlib
import itertools
import re

import numpy as np
import pytest

from attention_zoo.data import CaptionedImages, generate_scenes
from attention_zoo.data.synthetic.scenes import COLOURS, SIZES, SPLITS, UNSEEN_KINDS
from attention_zoo.data.synthetic.shapes import SHAPES
from tests.refusals import refuses

THING = rf"a (small|large) ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})"
CAPTION = re.compile(
    rf"(?:at the|in the) (upper|lower) (left|right) (?:is )?{THING}(?: and (?:to its|)"
    rf" ?(left|right|above|below|over|under) ?(?:of it|it|) {THING})?"
)
OFFSETS = {"left": (0, -1), "right": (0, 1), "above": (-1, 0), "below": (1, 0)}
SYNONYMS = {"over": "above", "under": "below"}


@pytest.fixture(scope="module")
def corpora() -> dict[str, CaptionedImages]:
    return {split: generate_scenes(300, split) for split in SPLITS}


def parse_caption(caption: str) -> dict[tuple[int, int], tuple[str, str, str]]:
    """Return the objects that a caption describes, by the row and column of their quarters."""
    match = CAPTION.fullmatch(caption)
    assert match, caption
    position = int(match[1] == "lower"), int(match[2] == "right")
    things = {position: match.group(3, 4, 5)}
    if match[6]:
        down, across = OFFSETS[SYNONYMS.get(match[6], match[6])]
        things[position[0] + down, position[1] + across] = match.group(7, 8, 9)
    return things


def parse_captions(captions: tuple[str, ...]) -> dict[tuple[int, int], tuple[str, str, str]]:
    """Return the objects that captions describe; check that captions agree."""
    things = [thing for caption in captions for thing in parse_caption(caption).items()]
    assert len(dict(things)) == len(set(things))
    return dict(things)


def find_quarter(box: tuple) -> tuple[int, int]:
    """Return the quarter that contains a box."""
    top, left, bottom, right = (64 * edge for edge in box)
    for start, end in ((top, bottom), (left, right)):
        assert end <= 32 or start >= 32
    return int(top >= 32), int(left >= 32)


def test_image_equals_hand_computed_pixels() -> None:
    """Check corners and centers of both objects, and background around them."""
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
    for colour, positions in (
        (yellow, [(47, 8), (47, 20), (59, 8), (59, 20), (53, 14)]),
        (black, [(41, 46), (50, 46), (57, 37), (57, 55)]),
        (grey, [(53, 26), (44, 14), (33, 46), (42, 40), (42, 52), (10, 40)]),
    ):
        for position in positions:
            assert abs(image[position] - colour).max() <= 30, position


def test_images_names_and_origin(corpora: dict) -> None:
    for split, corpus in corpora.items():
        assert corpus.images.shape == (300, 64, 64, 3)
        assert corpus.images.dtype == np.uint8
        assert corpus.names[:2] == ["0", "1"]
        assert corpus.origin == f"scenes {split} (seed 1)"
    suffixes = {(1, 4): "", (1, 1): ", 1 thing", (2, 2): ", 2 things", (1, 3): ", 1 to 3 things"}
    for (minimum, maximum), suffix in suffixes.items():
        scenes = generate_scenes(1, "test", 1, min_things=minimum, max_things=maximum)
        assert scenes.origin == f"scenes test (seed 1{suffix})"


def test_captions_describe_all_boxes(corpora: dict) -> None:
    """A single object has two captions; otherwise, each object has two with each neighbour."""
    for corpus in corpora.values():
        counts = []
        for captions, boxes in zip(corpus.captions, corpus.boxes, strict=True):
            shapes = {find_quarter(box): shape for shape, box in boxes.items()}
            assert len(shapes) == len(boxes)
            assert {
                position: thing[2] for position, thing in parse_captions(captions).items()
            } == shapes
            described_pairs = [tuple(parse_caption(caption)) for caption in captions]
            adjacent_pairs = [
                (first, second)
                for first, second in itertools.permutations(shapes, 2)
                if (first[0] == second[0]) != (first[1] == second[1])
            ]
            assert sorted(described_pairs) == sorted(2 * (adjacent_pairs or [tuple(shapes)]))
            assert len(set(captions)) == len(captions)
            counts.append(len(boxes))
        assert min(counts.count(number) for number in (1, 2, 3, 4)) > 45
        assert {*counts} == {1, 2, 3, 4}


def test_boxes_contain_all_coloured_pixels(corpora: dict) -> None:
    """The rest of the image is grey, and each side of a box is near pixels of its object."""
    for corpus in corpora.values():
        for image, captions, boxes in zip(
            corpus.images, corpus.captions, corpus.boxes, strict=True
        ):
            ground = image.astype(int)
            for size, colour, shape in parse_captions(captions).values():
                top, left, bottom, right = (round(64 * edge) for edge in boxes[shape])
                part = image[top:bottom, left:right]
                low, high = {"small": (9, 21), "large": (17, 30)}[size]
                assert low < min(part.shape[:2]) <= max(part.shape[:2]) <= high
                colour_distance = abs(part.astype(int) - COLOURS[colour]).max(axis=2)
                assert (colour_distance <= 20).mean() > 0.12
                for edge in (part[:3], part[-3:], part[:, :3], part[:, -3:]):
                    assert (abs(edge.astype(int) - COLOURS[colour]).max(axis=2) < 100).any()
                ground[top:bottom, left:right] = -1
            background = ground[ground[:, :, 0] >= 0]
            assert np.ptp(background, axis=1).max() == 0
            assert background.min() > 40
            assert background.max() < 210


def test_splits_are_disjoint(corpora: dict) -> None:
    captions = [{*corpus.captions} for corpus in corpora.values()]
    assert sum(map(len, captions)) == len(set.union(*captions))
    images = {image.tobytes() for corpus in corpora.values() for image in corpus.images}
    assert len(images) == 4 * 300
    other_seed = {*generate_scenes(300, "test", seed=2).captions}
    assert not other_seed & captions[0]


def test_unseen_objects_do_not_occur_in_training(corpora: dict) -> None:
    kinds = {
        split: [
            thing for captions in corpus.captions for thing in parse_captions(captions).values()
        ]
        for split, corpus in corpora.items()
    }
    assert {*kinds["unseen"]} == {*UNSEEN_KINDS}
    assert {*kinds["train"]} == {*itertools.product(SIZES, COLOURS, SHAPES)} - {*UNSEEN_KINDS}
    assert [{thing[part] for thing in UNSEEN_KINDS} for part in range(3)] == [
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
def test_corpus_does_not_change(split: str) -> None:
    """Published results depend on the corpus."""
    corpus = generate_scenes(20, split, seed=3)
    content = corpus.images.tobytes() + repr((corpus.captions, corpus.boxes)).encode()
    assert hashlib.sha256(content).hexdigest()[:16] == DIGESTS[split]


def test_small_corpus_is_a_prefix_of_a_large_one(corpora: dict) -> None:
    fewer = generate_scenes(20, "unseen")
    more = corpora["unseen"].take(range(20))
    np.testing.assert_array_equal(fewer.images, more.images)
    assert (fewer.captions, fewer.boxes) == (more.captions, more.boxes)
    assert generate_scenes(20, "unseen", seed=2).captions != fewer.captions


@refuses(
    ({"split": "unsen"}, "scenes: unknown split 'unsen'; did you mean 'unseen'"),
    ({"size": 0}, "size must be at least 1, got 0"),
    ({"size": 2.5}, "size must be an integer of at least 1, got 2.5"),
    (
        {"min_things": 0},
        "expected 1 <= min_things <= max_things <= 4, got min_things=0, max_things=4",
    ),
    ({"max_things": 5}, "got min_things=1, max_things=5"),
)
def test_invalid_options_raise(options: dict) -> None:
    generate_scenes(**{"size": 1, **options})
