"""The options of a search, checked once, before anything is traced."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

from keras import ops

from attention_zoo.decoding.length_penalty import LENGTH_PENALTIES


def check_integer(name: str, value: Any, low: int) -> None:
    """ValueError unless `value` is an integer (no bool) of at least `low`."""
    try:
        good = not isinstance(value, bool) and operator.index(value) >= low
    except TypeError:
        good = False
    if not good:
        raise ValueError(f"{name} is {value!r}: it must be an integer of at least {low}")


@dataclass(frozen=True)
class SearchOptions:
    """What a search looks for.

    Attributes:
        start_token: the token fed first: an id, or ids `(B,)`, one a source.
        end_token: the id that ends a hypothesis.
        max_length: most tokens of a hypothesis, the end token among them.
        beam_width: hypotheses that run at a time for each source (N).
        n_best: hypotheses returned for each source, at most `beam_width`.
        length_penalty: a name in `LENGTH_PENALTIES`.
        length_penalty_weight: the penalty's exponent, at least 0.
        pad_token: what stands after the end of a hypothesis.

    Raises:
        ValueError: naming the option, its value and what it must be.
    """

    start_token: Any
    end_token: int
    max_length: int
    beam_width: int = 1
    n_best: int = 1
    length_penalty: str = "none"
    length_penalty_weight: float = 1.0
    pad_token: int = 0

    def __post_init__(self) -> None:
        if not getattr(self.start_token, "shape", ()):
            check_integer("start_token", self.start_token, 0)
        check_integer("end_token", self.end_token, 0)
        check_integer("pad_token", self.pad_token, 0)
        for name in ("max_length", "beam_width", "n_best"):
            check_integer(name, getattr(self, name), 1)
        if self.n_best > self.beam_width:
            raise ValueError(
                f"n_best is {self.n_best} but beam_width is {self.beam_width}: "
                "ask for at most as many hypotheses as run"
            )
        LENGTH_PENALTIES.get(self.length_penalty)
        weight = self.length_penalty_weight
        if not (isinstance(weight, (int, float)) and math.isfinite(weight) and weight >= 0):
            raise ValueError(
                f"length_penalty_weight is {weight!r}: it must be a finite number of at least 0"
            )

    def score(self, log_probs: Any, length: Any) -> Any:
        """Log probabilities over the penalty of `length` (a scalar): what is compared."""
        penalty = LENGTH_PENALTIES.get(self.length_penalty)
        return log_probs / penalty(ops.cast(length, "float32"), self.length_penalty_weight)
