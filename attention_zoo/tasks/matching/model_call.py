"""Mixin that makes the model inputs of a matcher."""

from __future__ import annotations

from typing import Any

from attention_zoo.tasks.matching.inference import pad_pairs
from attention_zoo.tasks.model_call import ModelCall


class MatchingCallMixin:
    """Mixin of `Matching` that implements `make_model_call`."""

    def make_model_call(self: Any, pair: Any, /, output: str | None = None) -> ModelCall:
        """Return the model's inputs for a pair of texts; see `Task`. `output` is ignored.

        A model around a BERT attends within one sequence of both texts, with special tokens.
        """
        (source,) = self._encode_sources([pair], ["the pair"])
        first, second = source.encoded.first, source.encoded.second
        inputs = pad_pairs([source.encoded], (len(first), len(second)))
        if self.model.max_pair_length is None:
            sides = {"first": first, "second": second}
        else:
            start, end = self.tokenizer.start, self.tokenizer.end
            sides = {"pair": [start, *first, end, *second, end]}
        labels = {name: self.tokenizer.tokens(ids) for name, ids in sides.items()}
        return ModelCall(inputs, labels, padded=["first", "second"])
