"""Batches of images with captions or class labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching.batching import Batches, Integers, check_integers
from attention_zoo.data.batching.image_text_batches import ImageTextBatches, Inputs


class CaptionBatches(ImageTextBatches):
    """Batches of images and captions, for image captioning (next-token prediction).

    See `ImageTextBatches` for the arguments; the texts are captions.
    """

    def make_batch(self, rows: Integers) -> tuple[Inputs, NDArray[np.int32]]:
        """Return `({"image": (B, H, W, 3), "target": (B, T)}, labels (B, T))`, padded with 0.

        Images are uint8, feature grids `(B, h, w, C)` float16, targets and labels int32. Targets
        begin with the start token. Labels are the targets shifted left by one position and end with
        the end token.
        """
        target, labels = self._texts.shift(rows, self.bucket_width)
        return {"image": self._images[self._image_indices[rows]], "target": target}, labels


class LabelledBatches(Batches):
    """Batches of images with class labels.

    Args:
        images: `(N, H, W, C)`, uint8.
        labels: class of each image, counted from 0.
        batch_size, seed, options: see `Batches`.

    Raises:
        ValueError: no images, a different number of labels, a label that is negative or not an
            integer, or see `Batches`.
    """

    def __init__(
        self,
        images: NDArray[np.uint8],
        labels: Sequence[int] | NDArray[np.int32],
        batch_size: int,
        seed: int,
        **options: Any,
    ) -> None:
        if not len(images):
            raise ValueError("cannot make batches: there are no examples")
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images but {len(labels)} labels")
        if (class_ids := check_integers("labels", labels)).min() < 0:
            raise ValueError(f"labels must be at least 0, got {class_ids.min()}")
        self._images, self._labels = images, class_ids.astype(np.int32)
        equal_sizes = np.zeros(len(images), np.int64)
        super().__init__((equal_sizes,), batch_size, seed, **options)

    def make_batch(self, rows: Integers) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Return images `(B, H, W, C)`, uint8, and labels `(B,)`, int32."""
        return self._images[rows], self._labels[rows]
