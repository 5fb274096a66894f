"""Mixin that makes the model inputs of a captioner."""

from __future__ import annotations

from typing import Any

from attention_zoo.tasks.inputs import check_text
from attention_zoo.tasks.model_call import ModelCall, make_decoder_call


class CaptioningCallMixin:
    """Mixin of `Captioning` that implements `make_model_call`."""

    def make_model_call(self: Any, image: Any, /, output: str | None = None) -> ModelCall:
        """Return the model's inputs for an image and its caption; see `Task`.

        Regions are labelled by row and column, from 1, in the grid of the image encoder, after the
        class token if the decoder attends to it.
        """
        pixels = self._read_images([image], ["the image"])
        if output is None:
            output = self.predict([image])[0].text
        (target,) = self.tokenizer.encode([check_text("the output", output)])
        rows, columns = self.model.grid_shape(pixels.shape)
        labels = [f"{1 + n // columns},{1 + n % columns}" for n in range(rows * columns)]
        if getattr(self.model, "has_class_token", False):
            labels = ["class token", *labels]
        return make_decoder_call("image", pixels, labels, self.tokenizer, target)
