"""Batches of images and their texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching.batching import Batches, Integers, Ragged, Row, whole_numbers

Inputs = dict[str, NDArray[np.uint8] | NDArray[np.int32]]


class ImageTextBatches(Batches):
    """Batches of image-text pairs, for contrastive training.

    An example is one text. An image with five texts is in five examples of an epoch, but only once
    in memory. Batches are not bucketed by text length: images take most of the compute, and texts
    of equal length have similar content. A batch may contain several texts of one image; they have
    the same label.

    Args:
        images: `(N, H, W, 3)`, uint8.
        texts: token ids, without start and end tokens.
        which_image: index of each text's image, counted from 0, in any order.
        batch_size, seed, bucket_width, numbers: see `Batches`; T of a batch is padded.

    Raises:
        ValueError: no texts, an empty text, different numbers of texts and image indices, an image
            index that is out of range or not an integer, a size below 1.
    """

    def __init__(
        self,
        images: NDArray[np.uint8],
        texts: Sequence[Row],
        which_image: Sequence[int] | Integers,
        batch_size: int,
        seed: int,
        bucket_width: int = 4,
        numbers: Sequence[int] | None = None,
    ) -> None:
        if not len(texts):
            raise ValueError("no texts to make batches of; the corpus is empty")
        which = whole_numbers("which_image", which_image)
        if len(which) != len(texts):
            raise ValueError(
                f"which_image must have one index per text, got {len(which)} indices and"
                f" {len(texts)} texts"
            )
        strange = (which < 0) | (which >= len(images))
        if strange.any():
            row = int(strange.argmax())
            raise ValueError(
                f"which_image must be in [0, {len(images)}), the range of image indices, got"
                f" {which[row]} for text {row}"
            )
        self._images, self._which = images, which
        self._texts = Ragged(texts, "text")
        like = np.zeros(len(texts), np.int64)
        super().__init__((like,), batch_size, seed, bucket_width, numbers)

    def batch(self, rows: Integers) -> tuple[Inputs, NDArray[np.int32]]:
        """Return `({"image": (B, H, W, 3), "text": (B, T)}, labels (B,))`.

        Images are uint8, texts and labels int32. Texts are padded with 0. Labels are image indices.
        """
        text = self._texts.padded(rows, self.bucket_width)
        which = self._which[rows]
        return {"image": self._images[which], "text": text}, which.astype(np.int32)
