"""Mixin that makes the model inputs of a classifier."""

from __future__ import annotations

from typing import Any

from attention_zoo.tasks.classification.inference import pad_texts
from attention_zoo.tasks.model_call import ModelCall


class ClassificationCallMixin:
    """Mixin of `Classification` that implements `make_model_call`."""

    def make_model_call(self: Any, text: Any, /, output: str | None = None) -> ModelCall:
        """Return the model's inputs for a text; see `Task`. `output` is ignored.

        Documents have the words of each sentence as row labels, and numbered sentences.
        """
        (source,) = self._encode_sources([text], ["the text"])
        encoded = source.encoded
        tokens = self._encoder.add_special_tokens(encoded.tokens)
        labels, lengths = list(self.tokenizer.tokens(tokens)), encoded.lengths
        shape = (len(tokens),) if lengths is None else (len(lengths), max(lengths))
        inputs = {"tokens": pad_texts([encoded._replace(tokens=tokens)], shape)}
        if lengths is None:
            return ModelCall(inputs, {"tokens": labels}, padded=["tokens"])
        words = iter(labels)
        rows = [[next(words) for _ in range(length)] for length in lengths]
        sentences = [f"sentence {number}" for number in range(1, len(rows) + 1)]
        return ModelCall(inputs, {"sentences": sentences}, row_labels=rows)
