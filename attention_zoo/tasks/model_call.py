"""One call of a task's model, with labels of all positions of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.data.tokenizers.vocabulary import END, START


class ModelCall(NamedTuple):
    """The inputs of a model for one example, without padding, and the labels of their positions.

    inputs: the argument of the model, arrays with a batch of 1. labels: labels of the positions
    that the model attends to, by kind; a kind that is also the name of an input can be padded.
    query_labels: labels of positions as queries, where they differ: a decoder attends from the
    position of an input token, but predicts the next one. row_labels: labels for each row of layers
    whose batch is not 1, such as the words of each sentence of a document.
    """

    inputs: Mapping[str, Any]
    labels: Mapping[str, Sequence[str]]
    query_labels: Mapping[str, Sequence[str]] = {}
    row_labels: Sequence[Sequence[str]] = ()

    def pad(self, name: str) -> ModelCall:
        """Return the call with one position of padding at the end of an input."""
        padded = np.pad(np.asarray(self.inputs[name]), ((0, 0), (0, 1)))
        return self._replace(inputs={**self.inputs, name: padded})


def make_decoder_call(
    name: str, source: Any, labels: Sequence[str], tokenizer: Any, target: Sequence[int]
) -> ModelCall:
    """Return the call of a model that generates a target.

    Args:
        name: name of the model's input, "source" or "image".
        source: the input, with a batch of 1.
        labels: labels of the positions of the encoder output.
        tokenizer: the tokenizer of targets.
        target: token ids, without start and end tokens.
    """
    inputs = {name: source, "target": np.array([[START, *target]], "int32")}
    kind = "source" if name == "source" else "region"
    start, *tokens, end = tokenizer.tokens([START, *target, END])
    return ModelCall(inputs, {kind: labels, "target": [start, *tokens]}, {"target": [*tokens, end]})
