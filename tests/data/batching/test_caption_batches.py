"""Images stay beside their captions and classes, and are in memory once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.data import CaptionBatches, LabelledBatches
from attention_zoo.data.tokenizers.vocabulary import END, PAD, START
from tests.refusals import refuses

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 4, 6, 3), np.uint8)
WHICH = RNG.permutation(np.repeat(np.arange(7), 3))
TARGETS = [RNG.integers(4, 50, size).tolist() for size in RNG.integers(1, 19, len(WHICH))]


def test_each_caption_is_beside_its_image_once_a_pass() -> None:
    made = CaptionBatches(IMAGES, TARGETS, WHICH, batch_size=4, seed=2)
    assert len(made) == 21
    seen = []
    for step in range(made.steps_per_pass):
        inputs, labels = made.at(step)
        assert inputs["image"].dtype == np.uint8
        assert inputs["target"].dtype == labels.dtype == np.int32
        assert inputs["target"].shape == labels.shape
        assert labels.shape[1] % 4 == 0
        for at, row in enumerate(made.rows(step)):
            seen.append(int(row))
            size = len(TARGETS[row]) + 1
            np.testing.assert_array_equal(inputs["image"][at], IMAGES[WHICH[row]])
            assert inputs["target"][at, :size].tolist() == [START, *TARGETS[row]]
            assert labels[at, :size].tolist() == [*TARGETS[row], END]
            assert (inputs["target"][at, size:] == PAD).all()
            assert (labels[at, size:] == PAD).all()
    assert sorted(seen) == list(range(21))


def test_captions_of_all_lengths_are_in_a_batch() -> None:
    """Each batch has short and long ones, where sorting would leave one kind to most."""
    lengths = np.repeat([2, 18], 64)
    made = CaptionBatches(IMAGES, [[5] * size for size in lengths], np.zeros(128, int), 16, seed=0)
    for step in range(made.steps_per_pass):
        longer = (lengths[made.rows(step)] > 2).sum()
        assert 2 < longer < 14
        assert made.at(step)[1].shape == (16, 20)


def test_a_dataset_has_static_image_sizes() -> None:
    made = CaptionBatches(IMAGES, TARGETS, WHICH, batch_size=4, seed=2)
    inputs, labels = made.dataset(2, 5).element_spec
    assert inputs["image"].shape.as_list() == [None, 4, 6, 3]
    assert inputs["target"].shape.as_list() == labels.shape.as_list() == [None, None]


@refuses(
    ([], [], "no texts to make batches of"),
    (TARGETS, WHICH[:-1], "got 20 indices and 21 texts"),
    ([[5], [6]], [0, 7], r"in \[0, 7\).*, got 7 for text 1"),
    ([[5], [6]], [-1, 2], r"in \[0, 7\).*, got -1 for text 0"),
    ([[5], []], [0, 1], "text 1 is empty"),
)
def test_bad_captions_are_refused(targets: Any, which: Any) -> None:
    CaptionBatches(IMAGES, targets, which, 4, 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_each_image_has_its_label(channels: int) -> None:
    images, labels = IMAGES[..., :channels], np.array([3, 1, 4, 1, 5, 0, 2])
    made = LabelledBatches(images, labels, batch_size=3, seed=1)
    for step in range(made.steps_per_pass):
        inputs, found = made.at(step)
        np.testing.assert_array_equal(inputs, images[made.rows(step)])
        assert found.tolist() == labels[made.rows(step)].tolist()
    inputs, found = made.dataset(0, 1).element_spec
    assert inputs.shape.as_list() == [None, 4, 6, channels]
    assert found.shape.as_list() == [None]


@refuses((0, [], "no images to make batches of"), (7, [0, 1], "7 images but 2 labels"))
def test_bad_labels_are_refused(count: int, labels: list[int]) -> None:
    LabelledBatches(IMAGES[:count], labels, 4, 1)
