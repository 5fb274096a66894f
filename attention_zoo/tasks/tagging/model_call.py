"""Mixin that makes the model inputs of a tagger."""

from __future__ import annotations

from typing import Any

import numpy as np

from attention_zoo.data import TaggedBatches
from attention_zoo.tasks.model_call import ModelCall


class TaggingCallMixin:
    """Mixin of `Tagging` that implements `make_model_call`."""

    def make_model_call(self: Any, text: Any, /, output: str | None = None) -> ModelCall:
        """Return the model's inputs for a sentence; see `Task`. `output` is ignored."""
        self.check_sources([text], ["the text"])
        (source,) = self._encode_sources([text], ["the text"])
        encoded = source.encoded
        tags = [[0] * len(encoded.starts)]
        inputs, _ = TaggedBatches([encoded], tags, 1, 0, bucket_width=1).make_batch(np.array([0]))
        return ModelCall(inputs, {"tokens": self.tokenizer.tokens(encoded.tokens)})
