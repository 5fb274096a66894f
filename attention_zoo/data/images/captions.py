"""Images with captions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.examples import Examples
from attention_zoo.data.images.images import check_stack, compute_digest, resize_images
from attention_zoo.data.storage.image_column import ImageFile

Box = tuple[float, float, float, float]
"""Top, left, bottom and right of an image region, as fractions of the image's height and width."""


@dataclass(frozen=True)
class CaptionedImages(Examples):
    """Images of one size, with captions.

    Attributes:
        images: `(N, H, W, 3)`, uint8, RGB; from the cache a `data.storage.image_column.ImageFile`.
        captions: one or more captions per image.
        names: name of each image: its file name or its number.
        origin: source of the data, for display and for saved results.
        skipped: number of bad examples that were skipped on request.
        boxes: for each image, the boxes of its objects, keyed by the object's word in the captions;
            None if unknown.
    """

    images: NDArray[np.uint8] | ImageFile
    captions: Sequence[tuple[str, ...]]
    names: Sequence[str]
    origin: str
    skipped: int = 0
    boxes: list[dict[str, Box]] | None = None

    columns = ("images", "captions", "names", "boxes")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stack(self.origin, self.images, (3,))
        texts: Any
        for name, texts in zip(self.names, self.captions, strict=True):
            if isinstance(texts, str):
                raise ValueError(
                    f"{self.origin}: captions of image {name} must be a tuple, got a string"
                )
            if not texts:
                raise ValueError(f"{self.origin}: image {name} has no caption")

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Yield a digest of each image, followed by its captions."""
        for image, captions in zip(self.images, self.captions, strict=True):
            yield compute_digest(image), *captions

    def resize(self, size: int) -> CaptionedImages:
        """Return the images resized to squares of side `size`, in the same way as `read_image`."""
        return replace(self, images=resize_images(self.images, size))

    def sample_captions(self, limit: int, seed: int) -> CaptionedImages:
        """Return the images with at most `limit` captions each, sampled with `seed`.

        Raises:
            ValueError: `limit` is below 1.
        """
        if limit < 1:
            raise ValueError(f"{self.origin}: captions per image must be at least 1, got {limit}")
        sample = random.Random(seed).sample
        return replace(
            self, captions=[tuple(sample(texts, min(limit, len(texts)))) for texts in self.captions]
        )
