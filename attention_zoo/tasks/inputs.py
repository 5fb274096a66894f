"""Arguments of `Task.predict`: lists of inputs, decoding rules, and inputs without prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

from attention_zoo.data.tokenizers.vocabulary import check_unicode
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.decoding.rules import as_rules
from attention_zoo.ops.arguments import format_value
from attention_zoo.registry import check_known
from attention_zoo.tasks.progress import Progress
from attention_zoo.tasks.result import Result

P = TypeVar("P")
T = TypeVar("T")
R = TypeVar("R", bound=Result)

Locations = Sequence[str] | None
"""Location of each input for error messages, such as file:line; None for "source 0" and so on."""

ON_ERROR = ("raise", "skip")
"""Values of the argument `on_error` of `Task.predict`."""

NAN_LOGITS = (
    "the model returned NaN or +inf logits; load an earlier checkpoint, or train it again with a"
    " lower learning rate or gradient clipping"
)


@dataclass(frozen=True)
class Input:
    """An argument of `Task.predict`.

    Args:
        name: the name of the argument.
        kind: "text" or "image": a list with one item for each result; on the command line, one
            text or one image file per line. "document": as "text", where an item may also be a
            list of sentences; on the command line, a JSON field with a list of texts. "text_pair":
            a list of pairs of texts `(first, second)`; on the command line, two texts separated by
            a tab per line, or two columns or fields. "image_index": images to search, encoded by
            `Task.build_index`; on the command line, a folder.
    """

    name: str
    kind: Literal["text", "document", "text_pair", "image", "image_index"] = "text"

    @property
    def noun(self) -> str:
        """Noun for an item in messages."""
        return {"document": "text", "text_pair": "pair"}.get(self.kind, self.kind)

    def is_single(self, inputs: Any) -> bool:
        """Return whether `inputs` is one item instead of a list: a pair of texts."""
        return self.kind == "text_pair" and _is_text_pair(inputs)


def _is_text_pair(values: Any) -> bool:
    """Return whether a value is a list or tuple of two texts."""
    is_pair = isinstance(values, list | tuple) and len(values) == 2
    return is_pair and all(isinstance(value, str) for value in values)


def list_inputs(
    inputs: Any, kind: str, name: str = "predict", is_single: bool = False
) -> list[Any]:
    """Return the inputs of `predict` as a list; an iterator is consumed once.

    Args:
        inputs: any iterable, except a single input.
        kind: "text", "pair" (of texts) or "image".
        name: the function, for the error message.
        is_single: whether an iterable is a single input, such as an array of pixels.
    """
    if is_single or not is_list(inputs) or (kind == "pair" and _is_text_pair(inputs)):
        given = type(inputs).__name__
        raise ValueError(f"{name} takes a list of {kind}s, got {given}; write {name}([{kind}])")
    return list(inputs)


def list_argument(name: str, values: Any, noun: str) -> list[Any]:
    """Return an argument that is a list of `noun`; raise ValueError if it is a single value."""
    if not is_list(values):
        raise ValueError(f"{name} must be a list of {noun}, got {format_value(values)}")
    return list(values)


def materialize_row(row: Any) -> Any:
    """Return an iterable as a list, which can be read twice; return other values unchanged."""
    return list(row) if is_list(row) else row


def is_list(values: Any) -> bool:
    """Return whether a value can be a list of items: an iterable, but no str, bytes or mapping."""
    if isinstance(values, str | bytes | Mapping):
        return False
    try:
        iter(values)
    except TypeError:  # arrays without axes have `__iter__`, too
        return False
    return True


def check_text(location: str, text: Any) -> str:
    """Return the text; raise ValueError unless it is a str of valid Unicode."""
    if not isinstance(text, str):
        fix = "; decode it, such as text.decode('utf-8')" if isinstance(text, bytes) else ""
        raise ValueError(f"{location}: expected a str, got {format_value(text)}{fix}")
    if not text.isascii():
        check_unicode(text, f"{location}: the text")
    return text


def name_rows(rows: Iterable[int], noun: str = "source") -> list[str]:
    """Return the names of rows in error messages."""
    return [f"{noun} {row}" for row in rows]


def add_locations(
    items: Sequence[T], locations: Locations, noun: str = "source"
) -> zip[tuple[str, T]]:
    """Return pairs `(location, item)`; without locations, "source 0" and so on."""
    return zip(locations or [f"{noun} {row}" for row in range(len(items))], items, strict=True)


def check_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules; raise ValueError for a rule that depends on the sources of a batch.

    A task regroups its inputs into batches, so a rule with one row per source would be applied to
    the wrong sources.
    """
    given = as_rules(rules)
    for rule in given:
        if rule.is_per_source:
            raise ValueError(
                f"rules: {type(rule).__name__} depends on the sources of a batch; use rules that "
                "are the same for all sources, or search with `task.model.search`"
            )
    return given


def refuse_unused(names: Iterable[str], used: Sequence[str], context: str) -> None:
    """Raise ValueError for a search option that is not in `used`."""
    options = [field.name for field in fields(SearchOptions)]
    for name in names:
        if name in options and name not in used:
            raise ValueError(
                f"search option {name} has no effect in {context}; remove it (used:"
                f" {', '.join(used)})"
            )


def refuse_rules(rules: Iterable[Rule], task: str) -> None:
    """Raise ValueError if rules are given to a task without search."""
    rules = tuple(rules)
    if rules:
        raise ValueError(f"task {task} has no search, but got {len(rules)} rules. Remove them.")


def predict_rows(
    count: int,
    on_error: str,
    result_class: type[R],
    prepare: Callable[[list[int]], P],
    predict: Callable[[list[int], P], Iterable[R]],
    names: Sequence[str] | None = None,
) -> list[R]:
    """Return one result for each of `count` inputs, in order.

    Args:
        count: number of inputs.
        on_error: "raise" a ValueError for the first input without a prediction, or "skip" such
            inputs: their results have `ok=False` and an `error`, and do not affect the others.
        result_class: the class of the results.
        prepare: encodes the inputs of some rows; raises ValueError if one is invalid.
        predict: returns the results of some rows, from what `prepare` returned for them.
        names: what the inputs are called in error messages; "source 0" and so on by default.
    """
    check_known("on_error: unknown value", [on_error], ON_ERROR)
    rows, results = list(range(count)), {}
    names = names or name_rows(rows)
    try:
        prepared = prepare(rows)
    except ValueError:
        if on_error == "raise":
            raise
        results = _find_invalid(names, result_class, prepare)
        rows = [row for row in rows if row not in results]
        prepared = prepare(rows)
    if rows:  # else there is nothing to pad a batch with
        with Progress(len(rows)):
            results.update(zip(rows, predict(rows, prepared), strict=True))
    ordered = [results[row] for row in range(count)]
    if on_error == "raise":
        for name, result in zip(names, ordered, strict=True):
            if not result.ok:
                raise ValueError(f"{name}: {result.error}")
    return ordered


def _find_invalid(
    names: Sequence[str], result_class: type[R], prepare: Callable[[list[int]], Any]
) -> dict[int, R]:
    """Return a failed result for each row that `prepare` rejects."""
    failed = {}
    for row, name in enumerate(names):
        try:
            prepare([row])
        except ValueError as error:
            failed[row] = result_class.failed(str(error).removeprefix(f"{name}: "))
    return failed
