"""One call of a task's model, with labels of all positions of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.data.tokenizers.vocabulary import END, START


class ModelCall(NamedTuple):
    """The inputs of a model for one example, without padding, and the labels of their positions.

    Attributes:
        inputs: the argument of the model, arrays with a batch of 1.
        labels: labels of the positions that the model attends to, by kind, such as "source".
        query_labels: labels of positions as queries, where they differ: a decoder attends from the
            position of an input token, but predicts the next one.
        row_labels: labels for each row of layers whose batch is not 1, such as the words of each
            sentence of a document.
        padded: names of inputs, which are kinds too, to which padding may be added: an axis whose
            length grows with them has these positions.
    """

    inputs: Mapping[str, Any]
    labels: Mapping[str, Sequence[str]]
    query_labels: Mapping[str, Sequence[str]] = {}
    row_labels: Sequence[Sequence[str]] = ()
    padded: Sequence[str] = ()

    @property
    def padding(self) -> dict[str, int]:
        """Number of positions of padding that `pad_inputs` adds to each input, all different."""
        return {name: number for number, name in enumerate(self.padded, 1)}

    def pad_inputs(self) -> dict[str, Any]:
        """Return the inputs with padding."""
        padded = {
            name: np.pad(np.asarray(self.inputs[name]), ((0, 0), (0, size)))
            for name, size in self.padding.items()
        }
        return {**self.inputs, **padded}


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
    return ModelCall(
        inputs,
        {kind: labels, "target": [start, *tokens]},
        {"target": [*tokens, end]},
        padded=[key for key in inputs if key != "image"],
    )
