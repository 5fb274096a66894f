"""Batches of images and their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching.batching import Batches, check_integers
from attention_zoo.data.batching.ragged import Integers, Ragged, Rows
from attention_zoo.data.storage.image_column import ImageFile

Inputs = dict[str, NDArray[np.uint8] | NDArray[np.float16] | NDArray[np.int32]]


class ImageTextBatches(Batches):
    """Batches of image-text pairs, for contrastive training.

    An example is one text. An image with five texts is in five examples of an epoch, but only once
    in memory. Batches are not bucketed by text length: images take most of the compute, and texts
    of equal length have similar content. A batch may contain several texts of one image; they have
    the same label.

    Args:
        images: `(N, H, W, 3)`, uint8, or feature grids `(N, h, w, C)`, float16.
        texts: token ids, without start and end tokens.
        image_indices: index of each text's image, counted from 0, in any order.
        batch_size, seed, options: see `Batches`. T is padded to a multiple of `bucket_width`.

    Raises:
        ValueError: no texts, an empty text, different numbers of texts and image indices, an image
            index that is out of range or not an integer, or see `Batches`.
    """

    def __init__(
        self,
        images: NDArray[np.uint8] | NDArray[np.float16] | ImageFile,
        texts: Rows,
        image_indices: Sequence[int] | Integers,
        batch_size: int,
        seed: int,
        **options: Any,
    ) -> None:
        indices = check_integers("image_indices", image_indices)
        if len(indices) != len(texts):
            raise ValueError(
                f"image_indices must have one index per text, got {len(indices)} indices and"
                f" {len(texts)} texts"
            )
        is_invalid = (indices < 0) | (indices >= len(images))
        if is_invalid.any():
            row = int(is_invalid.argmax())
            raise ValueError(
                f"image_indices must be in [0, {len(images)}), the range of image indices, got"
                f" {indices[row]} for text {row}"
            )
        self._images, self._image_indices = images, indices
        self._texts = Ragged.from_rows(texts, "text")
        equal_sizes = np.zeros(len(texts), np.int64)
        super().__init__((equal_sizes,), batch_size, seed, **options)

    def make_batch(self, rows: Integers) -> tuple[Inputs, NDArray[np.int32]]:
        """Return `({"image": (B, H, W, 3), "text": (B, T)}, labels (B,))`.

        Images are uint8, feature grids `(B, h, w, C)` float16, texts and labels int32. Texts are
        padded with 0. Labels are image indices.
        """
        text = self._texts.pad(rows, self.bucket_width)
        indices = self._image_indices[rows]
        return {"image": self._images[indices], "text": text}, indices.astype(np.int32)
