"""Mixin that makes the model inputs of a translator."""

from __future__ import annotations

from typing import Any

import numpy as np

from attention_zoo.tasks.inputs import check_text
from attention_zoo.tasks.model_call import ModelCall, make_decoder_call


class TranslationCallMixin:
    """Mixin of `Translation` that implements `make_model_call`."""

    def make_model_call(self: Any, text: Any, /, output: str | None = None) -> ModelCall:
        """Return the model's inputs for a text and its translation; see `Task`."""
        (source,) = self.encode_sources([text], ["the text"])
        if output is None:
            output = self.predict([text])[0].text
        (target,) = self.target_tokenizer.encode([check_text("the output", output)])
        labels = self.source_tokenizer.tokens(source)
        sources = np.array([source], "int32")
        return make_decoder_call("source", sources, labels, self.target_tokenizer, target)
