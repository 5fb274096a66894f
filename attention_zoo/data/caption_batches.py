"""Batches of images, each with one of its captions, or with its class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching import Batches, Integers, whole_numbers
from attention_zoo.data.image_text_batches import ImageTextBatches, Inputs


class CaptionBatches(ImageTextBatches):
    """The batches of a corpus of captions, each beside its image, to be told word by word.

    As `ImageTextBatches`, the texts being captions.
    """

    def batch(self, rows: Integers) -> tuple[Inputs, NDArray[np.int32]]:
        """`({"image": (B, H, W, 3), "target": (B, T)}, labels (B, T))`, padded with 0.

        Images are uint8, all else int32. Targets begin with the start token, labels are the targets
        one place on, up to the end token.
        """
        target, labels = self._texts.shifted(rows, self.bucket_width)
        return {"image": self._images[self._which[rows]], "target": target}, labels


class LabelledBatches(Batches):
    """The batches of a corpus of images, each of a class.

    Args:
        images: `(N, H, W, C)`, uint8.
        labels: the class of each, counted from 0.
        batch_size, seed, numbers: see `Batches`.

    Raises:
        ValueError: no image, another number of labels, one that is no whole number from 0, a size
            below 1.
    """

    def __init__(
        self,
        images: NDArray[np.uint8],
        labels: Sequence[int] | NDArray[np.int32],
        batch_size: int,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> None:
        if not len(images):
            raise ValueError("no images to make batches of; the corpus is empty")
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images but {len(labels)} labels")
        if (numbered := whole_numbers("labels", labels)).min() < 0:
            raise ValueError(f"labels are counted from 0, got {numbered.min()}")
        self._images, self._labels = images, numbered.astype(np.int32)
        like = np.zeros(len(images), np.int64)
        super().__init__((like,), batch_size, seed, numbers=numbers)

    def batch(self, rows: Integers) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Images `(B, H, W, C)`, uint8, and labels `(B,)`, int32."""
        return self._images[rows], self._labels[rows]
