"""Batches of images and texts that belong together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching import Batches, Integers, Ragged, Row, whole_numbers

Inputs = dict[str, NDArray[np.uint8] | NDArray[np.int32]]


class ImageTextBatches(Batches):
    """The batches of a corpus of captions as pairs of an image and a text, to be told from others.

    An example is one text; an image of five texts is in five examples of a pass, but only once in
    memory. Texts of all lengths are in a batch: images take most of its time, and texts of one
    length say the same things. A batch may hold several texts of an image, which their labels tell.

    Args:
        images: `(N, H, W, 3)`, uint8.
        texts: token ids, without start and end.
        which_image: of each text its image, counted from 0, in any order.
        batch_size, seed, bucket_width, numbers: see `Batches`; T of a batch is padded.

    Raises:
        ValueError: no text, an empty one, another number of texts than of their images, an image
            that is not there or no whole number, a size below 1.
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
            raise ValueError(f"{len(texts)} texts, but the images of {len(which)}")
        strange = (which < 0) | (which >= len(images))
        if strange.any():
            row = int(strange.argmax())
            raise ValueError(f"text {row} is of image {which[row]}; there are {len(images)}")
        self._images, self._which = images, which
        self._texts = Ragged(texts, "text")
        like = np.zeros(len(texts), np.int64)
        super().__init__((like,), batch_size, seed, bucket_width, numbers)

    def batch(self, rows: Integers) -> tuple[Inputs, NDArray[np.int32]]:
        """`({"image": (B, H, W, 3), "text": (B, T)}, labels (B,))`: labels number the images.

        Images are uint8, all else int32. Texts are padded with 0.
        """
        text = self._texts.padded(rows, self.bucket_width)
        which = self._which[rows]
        return {"image": self._images[which], "text": text}, which.astype(np.int32)
