"""Attention maps of a task's model for one input: all layers and heads, with labelled positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.inspection import AttentionMap, AttentionRecord, AttentionRecords, record
from attention_zoo.inspection.record import join_decoder_steps
from attention_zoo.tasks.model_call import ModelCall

QUERY = "query"
"""Label of a single query that is no token, such as the learned query of a pooling."""


def make_attention_maps(
    task: Any, source: Any, output: str | None = None, layers: Sequence[Any] | None = None
) -> list[AttentionMap]:
    """Return the attention weights of all layers of a task's model for one input.

    A model that generates text is called with a given output (forced decoding), so that the rows of
    its decoder are the tokens of the output. A second call, with padding, shows which axes have the
    positions of which input; other axes are numbered.

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

    Example:
        >>> import attention_zoo as az
        >>> task = az.load("rnnsearch_small.dates_en_fr")
        >>> (attention,) = az.tasks.make_attention_maps(task, "at noon", "à midi")
        >>> attention.weights.shape == (1, len(attention.targets), len(attention.sources))
        True

    Reference: this library.
    """
    call = task.make_model_call(source, output)
    recorded = _record(task, call.inputs, layers)
    padded: AttentionRecords | None = recorded
    try:
        if call.padded:
            padded = _record(task, call.pad_inputs(), layers)
    except ValueError:  # more positions than the model has: axes are known by their length only
        padded = None
    return [
        attention_map
        for path, records in recorded.items()
        for attention_map in _make_maps(
            path, records, None if padded is None else padded[path], call
        )
    ]


def _record(task: Any, inputs: Any, layers: Sequence[Any] | None) -> AttentionRecords:
    with record(task.model, layers=layers) as weights:
        task.model(dict(inputs), training=False)
    return weights


def _make_maps(
    path: str,
    records: Sequence[AttentionRecord],
    padded: Sequence[AttentionRecord] | None,
    call: ModelCall,
) -> Iterator[AttentionMap]:
    """Yield the maps of a layer: of its steps together, or of each of its calls.

    Args:
        path: path of the layer.
        records: its records.
        padded: its records with padding; a decoder then has more steps. None if unknown.
        call: the call of the model.
    """
    if padded is None or len(padded) != len(records):
        records, padded = join_decoder_steps(records), padded and join_decoder_steps(padded)
    for number, entry in enumerate(records):
        name = path if len(records) == 1 else f"{path}:{number}"
        weights = entry.weights
        if _is_of_rows(weights, call.row_labels):
            for row, labels in enumerate(call.row_labels):
                queries = [QUERY] * weights.shape[2]
                values = weights[row][:, :, : len(labels)]
                yield AttentionMap(f"{name}, sentence {row + 1}", values, queries, list(labels))
            continue
        if len(weights) != 1:
            raise ValueError(
                f"layer {path} attends within {len(weights)} windows of the input. Shorten the"
                " input to one window, or use `inspection.record` on `task.model`."
            )
        growth = None
        if padded is not None:
            growth = np.subtract(padded[number].weights.shape, weights.shape)
        yield _label(name, weights[0], growth, call)


def _is_of_rows(weights: NDArray[Any], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether weights are those of a pooling of the words of each sentence."""
    return len(rows) == len(weights) and weights.shape[-1] == max(map(len, rows))


def _label(name: str, weights: NDArray[Any], growth: Any, call: ModelCall) -> AttentionMap:
    """Return the map of weights `(H, T, S)`; unknown axes are numbered.

    Args:
        name: name of the map.
        weights: the weights.
        growth: `(4,)`, by how much the axes B, H, T and S grow with padding; None if unknown.
        call: the call of the model.
    """
    num_queries, num_sources = weights.shape[1:]
    changes = (None, None) if growth is None else growth[2:]
    kind, source_kind = (
        _find_kind(size, change, call)
        for size, change in zip((num_queries, num_sources), changes, strict=True)
    )
    sources = _number(num_sources) if source_kind is None else call.labels[source_kind]
    if kind is not None:
        queries = call.query_labels.get(kind, call.labels[kind])
    else:
        queries = [QUERY] if num_queries == 1 else _number(num_queries)
    return AttentionMap(name, weights, list(queries), list(sources))


def _find_kind(size: int, growth: Any, call: ModelCall) -> str | None:
    """Return the kind of positions of an axis, from its length and its growth with padding."""
    padding = call.padding
    growths = {kind: padding.get(kind, 0) for kind in call.labels}
    if "pair" in growths:  # one sequence of both texts
        growths["pair"] = sum(padding.values())
    kinds = [
        kind
        for kind, labels in call.labels.items()
        if len(labels) == size and growth in (None, growths[kind])
    ]
    return kinds[0] if len(kinds) == 1 else None


def _number(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]
