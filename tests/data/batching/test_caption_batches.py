"""Batches of images with captions, and of images with class labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.data import CaptionBatches, LabelledBatches
from attention_zoo.data.tokenizers.vocabulary import END, PAD, START
from tests.refusals import refuses

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 4, 6, 3), np.uint8)
IMAGE_INDICES = RNG.permutation(np.repeat(np.arange(7), 3))
TARGETS = [RNG.integers(4, 50, size).tolist() for size in RNG.integers(1, 19, len(IMAGE_INDICES))]


def test_each_epoch_pairs_every_caption_with_its_image() -> None:
    batches = CaptionBatches(IMAGES, TARGETS, IMAGE_INDICES, batch_size=4, seed=2)
    assert len(batches) == 21
    rows_seen = []
    for step in range(batches.steps_per_epoch):
        inputs, labels = batches.get_batch(step)
        assert inputs["image"].dtype == np.uint8
        assert inputs["target"].dtype == labels.dtype == np.int32
        assert inputs["target"].shape == labels.shape
        assert labels.shape[1] % 4 == 0
        for index, row in enumerate(batches.get_rows(step)):
            rows_seen.append(int(row))
            size = len(TARGETS[row]) + 1
            np.testing.assert_array_equal(inputs["image"][index], IMAGES[IMAGE_INDICES[row]])
            assert inputs["target"][index, :size].tolist() == [START, *TARGETS[row]]
            assert labels[index, :size].tolist() == [*TARGETS[row], END]
            assert (inputs["target"][index, size:] == PAD).all()
            assert (labels[index, size:] == PAD).all()
    assert sorted(rows_seen) == list(range(21))


def test_batches_are_not_bucketed_by_caption_length() -> None:
    """Every batch has short and long captions."""
    lengths = np.repeat([2, 18], 64)
    batches = CaptionBatches(
        IMAGES, [[5] * size for size in lengths], np.zeros(128, int), 16, seed=0
    )
    for step in range(batches.steps_per_epoch):
        num_long = (lengths[batches.get_rows(step)] > 2).sum()
        assert 2 < num_long < 14
        assert batches.get_batch(step)[1].shape == (16, 20)


def test_dataset_has_static_image_sizes() -> None:
    batches = CaptionBatches(IMAGES, TARGETS, IMAGE_INDICES, batch_size=4, seed=2)
    inputs, labels = batches.dataset(2, 5).element_spec
    assert inputs["image"].shape.as_list() == [None, 4, 6, 3]
    assert inputs["target"].shape.as_list() == labels.shape.as_list() == [None, None]


@refuses(
    ([], [], "cannot make batches: there are no examples"),
    (TARGETS, IMAGE_INDICES[:-1], "got 20 indices and 21 texts"),
    ([[5], [6]], [0, 7], r"in \[0, 7\).*, got 7 for text 1"),
    ([[5], [6]], [-1, 2], r"in \[0, 7\).*, got -1 for text 0"),
    ([[5], []], [0, 1], "text 2 is empty"),
)
def test_invalid_captions_raise(targets: Any, indices: Any) -> None:
    CaptionBatches(IMAGES, targets, indices, 4, 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_labels_match_images(channels: int) -> None:
    images, labels = IMAGES[..., :channels], np.array([3, 1, 4, 1, 5, 0, 2])
    batches = LabelledBatches(images, labels, batch_size=3, seed=1)
    for step in range(batches.steps_per_epoch):
        inputs, batch_labels = batches.get_batch(step)
        np.testing.assert_array_equal(inputs, images[batches.get_rows(step)])
        assert batch_labels.tolist() == labels[batches.get_rows(step)].tolist()
    inputs, batch_labels = batches.dataset(0, 1).element_spec
    assert inputs.shape.as_list() == [None, 4, 6, channels]
    assert batch_labels.shape.as_list() == [None]


@refuses(
    (0, [], "cannot make batches: there are no examples"), (7, [0, 1], "7 images but 2 labels")
)
def test_invalid_labels_raise(count: int, labels: list[int]) -> None:
    LabelledBatches(IMAGES[:count], labels, 4, 1)
