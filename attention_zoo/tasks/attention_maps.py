"""Attention maps of a task's model for one input: all layers and heads, with labelled positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.inspection import AttentionMap, AttentionRecord, record
from attention_zoo.tasks.model_call import ModelCall

QUERY = "query"
"""Label of a single query that is no token, such as the learned query of a pooling."""


def make_attention_maps(
    task: Any, source: Any, output: str | None = None, layers: Sequence[Any] | None = None
) -> list[AttentionMap]:
    """Return the attention weights of all layers of a task's model for one input.

    The model is called once. A model that generates text is called with a given output (forced
    decoding), so that the rows of its decoder are the tokens of the output.

    Args:
        task: a task whose `make_model_call` is implemented.
        source: one input of `predict`: a text, a pair of texts, or an image.
        output: the text to generate, such as a reference translation; by default that of `predict`.
        layers: as in `inspection.record`.

    Returns:
        `AttentionMap`s, with weights `(H, T, S)` and labels of queries and sources, in the order of
        the layers' first calls. A layer that is called several times, or on several sentences, has
        one map for each. Steps of a recurrent decoder are the rows of one map.

    Raises:
        ValueError: the task cannot be inspected, the input is invalid, or the model has no
            attention.
    """
    call = task.make_model_call(source, output)
    call, sizes = _tell_apart(call)
    with record(task.model, layers=layers) as weights:
        task.model(dict(call.inputs), training=False)
    return [
        attention_map
        for path, records in weights.items()
        for attention_map in _make_maps(path, records, call, sizes)
    ]


def _tell_apart(call: ModelCall) -> tuple[ModelCall, dict[int, str]]:
    """Pad inputs until no two axes have the same length; return the kind of axis by length."""
    sizes: dict[int, str] = {}
    for name, labels in call.labels.items():
        size = len(labels)
        while size in sizes:
            padded = name if name in call.inputs else sizes[size]
            if padded != name:  # pad the other axis
                sizes[size + 1] = sizes.pop(size)
            else:
                size += 1
            call = call.pad(padded)
        sizes[size] = name
    return call, sizes


def _make_maps(
    path: str, records: Sequence[AttentionRecord], call: ModelCall, sizes: dict[int, str]
) -> Iterator[AttentionMap]:
    """Yield the maps of a layer: of its steps together, or of each of its calls."""
    arrays = [entry.weights for entry in records]
    shapes = {array.shape for array in arrays}
    if len(arrays) > 1 and len(shapes) == 1 and arrays[0].shape[2] == 1:
        arrays = [np.concatenate(arrays, axis=2)]
    for number, array in enumerate(arrays):
        name = path if len(arrays) == 1 else f"{path}:{number}"
        if len(array) == 1:
            yield _label(name, array[0], call, sizes)
            continue
        for row, labels in enumerate(call.row_labels[: len(array)]):
            size = len(labels)
            queries = labels if array.shape[2] == array.shape[3] else [QUERY] * array.shape[2]
            weights = array[row][:, : len(queries), :size]
            yield AttentionMap(f"{name}, sentence {row + 1}", weights, queries, labels)


def _label(
    name: str, weights: NDArray[Any], call: ModelCall, sizes: dict[int, str]
) -> AttentionMap:
    """Return the map of weights `(H, T, S)`, without padding; unknown axes are numbered."""
    num_queries, num_sources = weights.shape[1:]
    sources = call.labels.get(sizes.get(num_sources, ""), _number(num_sources))
    kind = sizes.get(num_queries, "")
    queries = call.query_labels.get(kind, call.labels.get(kind, _number(num_queries)))
    if num_queries == 1 and num_sources > 1:
        queries = [QUERY]
    weights = weights[:, : len(queries), : len(sources)]
    return AttentionMap(name, weights, list(queries), list(sources))


def _number(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]
