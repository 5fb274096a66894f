"""Predictions for a stream of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import length_hint
from typing import Any

from attention_zoo.ops.arguments import whole_number
from attention_zoo.registry import check_known
from attention_zoo.tasks.inputs import ON_ERROR, is_list
from attention_zoo.tasks.progress import Progress


def predict_stream(
    task: Any, inputs: Iterable[Any], chunk_size: int, on_error: str, options: dict[str, Any]
) -> Iterator[Any]:
    """Return an iterator over the results of `task.predict`, called chunk by chunk.

    Args:
        task: the task.
        inputs: any iterable of inputs; a chunk is read when the results before it are consumed.
        chunk_size: number of inputs of a call.
        on_error: "raise" or "skip", as in `Task.predict`.
        options: the other arguments of `predict`. Those in `task.row_options` are iterables with
            one entry for each input.

    Raises:
        ValueError: `inputs` is a single input, an argument is invalid, or, while the results are
            consumed, an input has no prediction.
    """
    chunk_size = whole_number("chunk_size", chunk_size)
    check_known("on_error: unknown value", [on_error], ON_ERROR)
    first_input = task.inputs[0]
    if task.is_single_input(inputs) or first_input.is_single(inputs):
        given, kind = type(inputs).__name__, first_input.noun
        raise ValueError(
            f"predict_iter takes an iterable of {kind}s, got {given}; write predict_iter([{kind}])"
        )
    by_row = {name: iter(options[name]) for name in task.row_options if is_list(options.get(name))}
    shared = {name: value for name, value in options.items() if name not in by_row}
    progress = Progress(length_hint(inputs) or None)

    def generate() -> Iterator[Any]:
        remaining = iter(inputs)
        while chunk := list(islice(remaining, chunk_size)):
            first = progress.count
            rows = {name: _take(name, values, first, chunk) for name, values in by_row.items()}
            with progress:
                results = task.predict(chunk, on_error="skip", **rows, **shared)
            progress.count = first + len(chunk)
            for number, (source, result) in enumerate(zip(chunk, results, strict=True), first):
                if on_error == "raise" and not result.ok:
                    raise ValueError(f"{task.name_input(number, source)}: {result.error}")
                yield result
        for name, values in by_row.items():
            if next(values, None) is not None:
                raise ValueError(
                    f"{name} must have one entry for each of the {progress.count} inputs, got more"
                )

    return generate()


def _take(name: str, values: Iterator[Any], first: int, chunk: list[Any]) -> list[Any]:
    """Return the entries of an option for a chunk whose first input has this number."""
    rows = list(islice(values, len(chunk)))
    if len(rows) < len(chunk):
        raise ValueError(
            f"{name} must have one entry for each input, got {first + len(rows)} for at least"
            f" {first + len(chunk)} inputs"
        )
    return rows
