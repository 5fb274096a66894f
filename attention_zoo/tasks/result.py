"""Base class of results, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

R = TypeVar("R", bound="Result")
Span = tuple[int, int]
"""Start and end of a part of a text in characters, the end exclusive."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A prediction for one input.

    Args:
        text: the prediction as text.
        score: its score; a log probability unless stated otherwise.
        tokens: readable labels of the prediction's T tokens.
        source_tokens: readable labels of the input's S tokens.
        attention: attention weights, or None; the shape depends on the task.
        unknown: positions of unknown tokens in `source_tokens`.
        truncated: True if the search reached the length limit before the end token.
        alternatives: the next best predictions for the same input, best first.
        ok: False if the input has no prediction, with `predict(..., on_error="skip")`; the text is
            then empty and the score -inf.
        error: why it has none.
    """

    text: str
    score: float
    tokens: tuple[str, ...] = ()
    source_tokens: tuple[str, ...] = ()
    attention: np.ndarray | None = None
    unknown: tuple[int, ...] = ()
    truncated: bool = False
    alternatives: tuple[Self, ...] = ()
    ok: bool = True
    error: str = ""

    @classmethod
    def failed(cls, error: str) -> Self:
        """Return the result for an input that has no prediction."""
        return cls(text="", score=float("-inf"), ok=False, error=error)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep the short `__repr__`, which dataclasses would replace."""
        super().__init_subclass__(**kwargs)
        cls.__repr__ = Result.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """Return one line: text, score, sizes of tuples, shapes of arrays and any error."""
        options = [f"{self.text!r}" if len(self.text) <= 80 else f"{self.text[:77]!r}..."]
        options.append(f"score={self.score:.4f}")
        for field in fields(self):
            value = vars(self)[field.name]
            if isinstance(value, np.ndarray):
                options.append(f"{field.name}={value.shape}")
            elif isinstance(value, tuple | dict) and value:
                options.append(f"{len(value)} {field.name}")
            elif value is True:
                options.append(field.name)
        if not self.ok:
            options.append(f"error={self.error!r}")
        return f"<{type(self).__name__} {', '.join(options)}>"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as values that `json.dumps` takes; arrays become nested lists."""
        content: dict[str, Any] = _as_json(self)
        return content


def check_plottable(result: Result) -> None:
    """Raise ValueError for a result without a prediction, or without attention weights."""
    if not result.ok:
        raise ValueError(f"the result has no prediction to plot: {result.error}")
    if result.attention is None:
        raise ValueError("the result has no attention weights to plot; use a model with attention")


def make_empty_image() -> np.ndarray:
    """Return the image of a failed result, `(0, 0, 3)`."""
    return np.zeros((0, 0, 3), np.uint8)


def rank_results(result_class: type[R], results: Iterable[R], missing: str = "no result") -> R:
    """Return the first of the results, best first, with the others as its alternatives.

    Args:
        result_class: the class of the results.
        results: the results for one input.
        missing: error of the result that is returned if there are none.
    """
    ranked = tuple(results)
    if not ranked:
        return result_class.failed(missing)
    return replace(ranked[0], alternatives=ranked[1:])


def _as_json(value: Any) -> Any:
    """Return a value of a result as `json.dumps` takes it."""
    if is_dataclass(value):
        return {field.name: _as_json(vars(value)[field.name]) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_as_json(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _as_json(one) for key, one in value.items()}
    return value
