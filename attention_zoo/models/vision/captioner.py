"""Base class of image captioners."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.decoding import SearchOptions
from attention_zoo.models.generation import DecoderStart, GenerationMixin, hash_sources
from attention_zoo.models.prebuilt import make_token_spec
from attention_zoo.models.vision.image_encoders import (
    check_image,
    compute_grid_shape,
    make_image_spec,
)
from attention_zoo.typing import Tensor


class Captioner(GenerationMixin):
    """Mixin for captioners, called with `{"image": (B, H, W, C), "target": (B, T)}`.

    A model inherits from `Captioner` and `EncoderDecoder`, or `Captioner` and `PrebuiltModel`, in
    this order. Its `settings` contain a `vocabulary_size`. It sets `encoder`, attends to the
    positions of the encoder's grid, flattened row by row, and defines `start_decoding`, which
    returns the result of `make_image_start`. `grid_shape` returns the grid's height and width.
    With `EncoderDecoder`, `vocabulary_settings` is `("vocabulary_size",)`, and there is no
    `source_embedding`. For `training.cache_features`, it encodes with
    `models.vision.image_encoders.encode_image`, which takes feature grids too.
    """

    encoder: Any
    """Layer from images `(B, H, W, C)`, 0 to 255, to a grid `(B, h, w, D)`, with an attribute
    `channels`: C."""

    source_name = "image"

    @property
    def target_vocabulary_size(self) -> int:  # type: ignore[override]
        """Number of caption tokens."""
        return int(self.settings["vocabulary_size"])  # type: ignore[attr-defined]

    @property
    def input_specs(self) -> dict[str, keras.InputSpec]:
        """Specs of the inputs of a call."""
        return {"image": make_image_spec(self.encoder), "target": make_token_spec("target")}

    @property
    def max_target_length(self) -> int | None:
        """Maximum number of caption tokens, the number of learned positions; None for no limit."""
        return None

    def grid_shape(self, image: Any) -> tuple[int, int]:
        """Return height and width of the grid of images or feature grids, or of such a shape."""
        return compute_grid_shape(self.encoder, image)

    def convert_source(self, source: Any) -> Tensor:
        """Convert images or feature grids to a tensor; raise ValueError for a wrong shape."""
        image = ops.convert_to_tensor(source)
        check_image(image, self.encoder)
        return image

    def check_search(self, source: Any, options: SearchOptions) -> None:
        """Raise ValueError for a wrong image shape, `max_length_ratio` or no `max_length`."""
        check_image(source, self.encoder)
        if options.max_length_ratio is not None:
            raise ValueError("max_length_ratio: an image has no length; give max_length")
        if options.max_length is None:
            raise ValueError("max_length: an image has no length; give max_length")

    def make_image_start(self, image: Tensor, memory: Tensor, start: DecoderStart) -> DecoderStart:
        """Add mask and keys of the sources, images `(B, H, W, C)` with memory `(B, ..., D)`."""
        batch, *sides = ops.shape(image)
        num_positions = math.prod(ops.shape(memory)[1:-1])
        pixels = ops.reshape(ops.cast(image, "float32"), (batch, math.prod(sides), 1))
        bits = ops.squeeze(ops.view(pixels, "int32"), axis=-1)
        keys = hash_sources(bits + 1)  # + 1: black is 0, which `hash_sources` ignores
        mask = ops.ones((batch, num_positions), "bool")
        return start._replace(source_mask=mask, source_keys=keys)
