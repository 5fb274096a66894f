"""Mixin that makes the model inputs of a summarizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from attention_zoo.tasks.inputs import check_text
from attention_zoo.tasks.model_call import ModelCall, make_decoder_call


class SummarizationCallMixin:
    """Mixin of `Summarization` that implements `make_model_call`."""

    def make_model_call(self: Any, text: Any, /, output: str | None = None) -> ModelCall:
        """Return the model's inputs for a text and its summary; see `Task`.

        Words of the summary outside the vocabulary are unknown tokens, also if they are copied.
        """
        (article,) = self.articles([text], ["the text"])
        if output is None:
            output = self.predict([text])[0].text
        (target,) = self.tokenizer.encode([check_text("the output", output)])
        source, prefix = np.array([article.ids], "int32"), self.special_ids[0]
        target = [*prefix, *target]
        return make_decoder_call("source", source, article.labels, self.tokenizer, target)
