"""The base class of decoding rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Rule:
    """Base class of rules that constrain or reweight tokens at every step.

    Rules are traced into the graph and not called at run time. Subclasses override the methods they
    need. The state of a rule, if any, is reordered with the hypotheses before it is passed to
    `update_state`.
    """

    is_per_source: bool = False
    """Whether the rule differs between sources, so that it is valid for one batch only."""

    def initial_state(self, batch_size: Any, max_length: Any) -> Any:
        """Return the initial state, for empty hypotheses: a nest of `(B, 1, ...)`.

        Args:
            batch_size: B.
            max_length: maximum number of tokens of a hypothesis.
        """
        return ()

    def adjust_logits(self, logits: Any, state: Any, step: Any) -> Any:
        """Return modified logits `(B, M, V)` float32, which are normalized afterwards.

        Args:
            logits: `(B, M, V)` float32.
            state: a nest of `(B, M, ...)`.
            step: scalar int32, the number of tokens before this step.
        """
        return logits

    def compute_allowed_mask(self, shape: tuple[Any, ...], state: Any, step: Any) -> Any:
        """Return which tokens are allowed, `(B | 1, M | 1, V)` bool, or None for all.

        They are renormalized over the allowed tokens only with `SearchOptions.renormalize`.

        Args:
            shape: `(B, M, V)`.
            state: a nest of `(B, M, ...)`.
            step: scalar int32, the number of tokens before this step.
        """
        return None

    def update_state(self, state: Any, tokens: Any, step: Any) -> Any:
        """Return the state after tokens `(B, N)` int32 were selected, in the same shapes."""
        return state


def as_rules(rules: Iterable[Rule] | Rule) -> tuple[Rule, ...]:
    """Return one or several rules as a tuple; raise ValueError for other objects."""
    candidates: tuple[Any, ...] = tuple(rules) if isinstance(rules, Iterable) else (rules,)
    for rule in candidates:
        if not isinstance(rule, Rule):
            got = type(rule).__name__
            raise ValueError(f"rules must be a list of decoding.Rule, got a {got} in it")
    return candidates


def check_sources(name: str, x: Any, shape: tuple[Any, ...]) -> None:
    """Raise ValueError if the static batch sizes of `x (B, ...)` and of the search differ."""
    rows, batch = x.shape[0], shape[0]
    if isinstance(rows, int) and isinstance(batch, int) and rows != batch:
        got = tuple(x.shape)
        raise ValueError(f"{name} must have {batch} rows, one for each source, got shape {got}")


def check_vocabulary(name: str, x: Any, shape: tuple[Any, ...]) -> None:
    """Raise ValueError if the last axis of `x` is not the vocabulary of the search."""
    if x.shape[-1] != shape[-1]:
        raise ValueError(
            f"the last axis of {name} must be the vocabulary size {shape[-1]}, got shape "
            f"{tuple(x.shape)}"
        )
