"""The base class of decoding rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Rule:
    """Base class of rules that constrain or reweight tokens at every step.

    Rules are traced into the graph and not called at run time. Subclasses override the methods they
    need. The memory of a rule, if any, is reordered with the hypotheses before it is passed to
    `update_state`.
    """

    of_sources: bool = False
    """Whether the rule differs between sources, so that it is valid for one batch only."""

    def memory(self, batch_size: Any, room: Any) -> Any:
        """Return the initial memory, for empty hypotheses: a nest of `(B, 1, ...)`.

        Args:
            batch_size: B.
            room: maximum number of tokens of a hypothesis.
        """
        return ()

    def reweigh(self, logits: Any, memory: Any, step: Any) -> Any:
        """Return modified logits `(B, M, V)` float32, which are normalized afterwards.

        Args:
            logits: `(B, M, V)` float32.
            memory: a nest of `(B, M, ...)`.
            step: scalar int32, the number of tokens before this step.
        """
        return logits

    def allowed(self, shape: tuple[Any, ...], memory: Any, step: Any) -> Any:
        """Return which tokens are allowed, `(B | 1, M | 1, V)` bool, or None for all.

        The log probabilities of allowed tokens do not change: they are not renormalized.

        Args:
            shape: `(B, M, V)`.
            memory: a nest of `(B, M, ...)`.
            step: scalar int32, the number of tokens before this step.
        """
        return None

    def update_state(self, memory: Any, tokens: Any, step: Any) -> Any:
        """Return the memory after tokens `(B, N)` int32 were selected, in the same shapes."""
        return memory


def as_rules(rules: Iterable[Rule] | Rule) -> tuple[Rule, ...]:
    """Return one or several rules as a tuple; raise ValueError for other objects."""
    given = tuple(rules) if isinstance(rules, Iterable) else (rules,)
    for rule in given:
        if not isinstance(rule, Rule):
            raise ValueError(f"rules holds a {type(rule).__name__}: give a list of `decoding.Rule`")
    return given


def check_sources(name: str, x: Any, shape: tuple[Any, ...]) -> None:
    """Raise ValueError if the static batch sizes of `x (B, ...)` and of the search differ."""
    rows, batch = x.shape[0], shape[0]
    if isinstance(rows, int) and isinstance(batch, int) and rows != batch:
        raise ValueError(f"{name} is of shape {tuple(x.shape)} but there are {batch} sources")
