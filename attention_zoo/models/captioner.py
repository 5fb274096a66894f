"""What models share that tell what images show."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.decoding import SearchOptions
from attention_zoo.models.image_encoders import check_image
from attention_zoo.models.searching import Reading, Searching, fingerprints

Tensor = Any


class Captioner(Searching):
    """A model with an image encoder, called with `{"image": (B, H, W, C), "target": (B, T)}`.

    Its `settings` have a `vocabulary_size`. Where it looks are the places of the encoder's grid in
    a row: `grid_shape` says how they lie.
    """

    encoder: Any
    """See `models.image_encoders`."""

    source_name = "image"

    @property
    def target_vocabulary_size(self) -> int:  # type: ignore[override]
        """How many tokens captions are of."""
        size: int = self.settings["vocabulary_size"]  # type: ignore[attr-defined]
        return size

    def grid_shape(self, image: Any) -> tuple[int, int]:
        """Height and width of the grid of images `(B, H, W, C)`, or of such a shape."""
        shape = tuple(getattr(image, "shape", image))
        height, width = self.encoder.compute_output_shape(shape)[1:3]
        return height, width

    def as_source(self, source: Any) -> Tensor:
        """Images as they are, whole numbers or not; ValueError for what are none."""
        image = ops.convert_to_tensor(source)
        check_image(image, self.encoder.channels)
        return image

    def check_search(self, source: Any, options: SearchOptions) -> None:
        """ValueError for what are no images, or for a length that is to be a share of theirs."""
        check_image(source, self.encoder.channels)
        if options.max_length_ratio is not None:
            raise ValueError("max_length_ratio: an image has no length; give max_length")

    def reading(self, image: Tensor, step: Any, state: Any) -> Reading:
        """What a search needs of images `(B, H, W, C)`."""
        batch, sides = ops.shape(image)[0], ops.shape(image)[1:]
        height, width = self.grid_shape(image)
        pixels = ops.reshape(image, (batch, math.prod(sides)))
        if "float" in keras.backend.standardize_dtype(image.dtype):
            pixels = ops.round(pixels * 256)
        keys = fingerprints(ops.cast(pixels, "int32") + 1)
        return Reading(step, state, places=ops.ones((batch, height * width), "bool"), keys=keys)
