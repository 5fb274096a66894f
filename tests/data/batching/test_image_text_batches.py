"""Images stay beside their texts, are in memory once, and labels tell which is whose."""

from __future__ import annotations

from typing import Any

import numpy as np

from attention_zoo.data import ImageTextBatches
from tests.data.batching.test_caption_batches import IMAGES, WHICH
from tests.data.batching.test_caption_batches import TARGETS as TEXTS
from tests.refusals import refuses


def test_each_text_is_beside_its_image_once_a_pass() -> None:
    made = ImageTextBatches(IMAGES, TEXTS, WHICH, batch_size=4, seed=2, numbers=WHICH + 1)
    assert (len(made), made.num_examples, made.steps_per_pass) == (21, 7, 6)
    seen = []
    for step in range(made.steps_per_pass):
        inputs, labels = made.at(step)
        image, text = inputs["image"], inputs["text"]
        assert (image.dtype, text.dtype, labels.dtype) == (np.uint8, np.int32, np.int32)
        assert text.shape[1] % 4 == 0
        np.testing.assert_array_equal(labels, WHICH[made.rows(step)])
        np.testing.assert_array_equal(image, IMAGES[labels])
        for at, row in enumerate(made.rows(step)):
            seen.append(int(row))
            size = len(TEXTS[row])
            assert text[at, :size].tolist() == TEXTS[row]
            assert not text[at, size:].any()
    assert sorted(seen) == list(range(21))


def test_a_dataset_has_static_image_sizes() -> None:
    made = ImageTextBatches(IMAGES, TEXTS, WHICH, batch_size=4, seed=2)
    inputs, labels = made.dataset(2, 4).element_spec
    assert inputs["image"].shape.as_list() == [None, 4, 6, 3]
    assert (inputs["text"].shape.as_list(), labels.shape.as_list()) == ([None, None], [None])


@refuses(
    ({"texts": [], "which_image": []}, "no texts to make batches of"),
    ({"which_image": WHICH[:3]}, "got 3 indices and 21 texts"),
    ({"which_image": WHICH + 1}, r"which_image must be in \[0, 7\).*, got 7 for text"),
    ({"texts": [[], *TEXTS[1:]]}, "text 0 is empty"),
    ({"which_image": [0.5, 0, 1]}, "which_image must be integers, got float64"),
)
def test_what_is_refused(given: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"texts": TEXTS, "which_image": WHICH, "batch_size": 4, **given}
    ImageTextBatches(IMAGES, seed=1, **whole)
