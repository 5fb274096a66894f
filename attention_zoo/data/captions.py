"""Images and what is said of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.images import check_stack, digest, resized_all

Box = tuple[float, float, float, float]
"""Top, left, bottom and right of a part of an image, in fractions of its height and width."""


@dataclass(frozen=True)
class CaptionedImages:
    """Images of one size, and their captions.

    Attributes:
        images: `(N, H, W, 3)`, uint8, RGB.
        captions: one or several of each image.
        names: what each image is called: its file's name, or its number.
        origin: where they come from, to be shown and stored beside results.
        skipped: how many bad ones were left out on request.
        boxes: of each image, where the object is that a word of its captions names; None where
            nobody knows.
    """

    images: NDArray[np.uint8]
    captions: list[tuple[str, ...]]
    names: list[str]
    origin: str
    skipped: int = 0
    boxes: list[dict[str, Box]] | None = None

    def __post_init__(self) -> None:
        for what, part in (
            ("sets of captions", self.captions),
            ("names", self.names),
            ("sets of boxes", self.boxes),
        ):
            if part is not None and len(part) != len(self):
                raise ValueError(f"{self.origin}: {len(self)} images and {len(part)} {what}")
        check_stack(self.origin, self.images, (3,))
        told: list[Any] = list(self.captions)
        for name, captions in zip(self.names, told, strict=True):
            if isinstance(captions, str):
                raise ValueError(f"{self.origin}: image {name}: give a tuple of captions, not one")
            if not captions:
                raise ValueError(f"{self.origin}: image {name} has no caption")

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """A digest of each image, and its captions."""
        for image, captions in zip(self.images, self.captions, strict=True):
            yield digest(image), *captions

    def resized(self, size: int) -> CaptionedImages:
        """The images resized to squares of that side, as `read_image` does it."""
        return replace(self, images=resized_all(self.images, size))

    def telling(self, most: int, seed: int) -> CaptionedImages:
        """The images with so many of their captions, drawn by the seed; all where they are fewer.

        Raises:
            ValueError: no caption is to be left.
        """
        if most < 1:
            raise ValueError(f"{self.origin}: an image needs a caption, got {most}")
        pick = random.Random(seed).sample
        return replace(
            self, captions=[tuple(pick(told, min(most, len(told)))) for told in self.captions]
        )

    def take(self, rows: Iterable[int]) -> CaptionedImages:
        """The images of these rows, and what belongs to them."""
        rows = list(rows)
        return replace(
            self,
            images=self.images[rows],
            captions=[self.captions[row] for row in rows],
            names=[self.names[row] for row in rows],
            boxes=self.boxes and [self.boxes[row] for row in rows],
        )
