"""Batches of image-text pairs, labelled by image."""

from __future__ import annotations

from typing import Any

import numpy as np

from attention_zoo.data import ImageTextBatches
from tests.data.batching.test_caption_batches import IMAGE_INDICES, IMAGES
from tests.data.batching.test_caption_batches import TARGETS as TEXTS
from tests.refusals import refuses


def test_each_epoch_pairs_every_text_with_its_image() -> None:
    batches = ImageTextBatches(
        IMAGES, TEXTS, IMAGE_INDICES, batch_size=4, seed=2, numbers=IMAGE_INDICES + 1
    )
    assert (len(batches), batches.num_examples, batches.steps_per_epoch) == (21, 7, 6)
    rows_seen = []
    for step in range(batches.steps_per_epoch):
        inputs, labels = batches.get_batch(step)
        image, text = inputs["image"], inputs["text"]
        assert (image.dtype, text.dtype, labels.dtype) == (np.uint8, np.int32, np.int32)
        assert text.shape[1] % 4 == 0
        np.testing.assert_array_equal(labels, IMAGE_INDICES[batches.get_rows(step)])
        np.testing.assert_array_equal(image, IMAGES[labels])
        for index, row in enumerate(batches.get_rows(step)):
            rows_seen.append(int(row))
            size = len(TEXTS[row])
            assert text[index, :size].tolist() == TEXTS[row]
            assert not text[index, size:].any()
    assert sorted(rows_seen) == list(range(21))


def test_dataset_has_static_image_sizes() -> None:
    batches = ImageTextBatches(IMAGES, TEXTS, IMAGE_INDICES, batch_size=4, seed=2)
    inputs, labels = batches.dataset(2, 4).element_spec
    assert inputs["image"].shape.as_list() == [None, 4, 6, 3]
    assert (inputs["text"].shape.as_list(), labels.shape.as_list()) == ([None, None], [None])


@refuses(
    ({"texts": [], "image_indices": []}, "cannot make batches: there are no examples"),
    ({"image_indices": IMAGE_INDICES[:3]}, "got 3 indices and 21 texts"),
    ({"image_indices": IMAGE_INDICES + 1}, r"image_indices must be in \[0, 7\).*, got 7 for text"),
    ({"texts": [[], *TEXTS[1:]]}, "text 1 is empty"),
    ({"image_indices": [0.5, 0, 1]}, "image_indices must be integers, got float64"),
)
def test_invalid_arguments_raise(changes: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {
        "texts": TEXTS,
        "image_indices": IMAGE_INDICES,
        "batch_size": 4,
        **changes,
    }
    ImageTextBatches(IMAGES, seed=1, **arguments)
