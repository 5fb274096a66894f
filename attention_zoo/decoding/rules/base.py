"""What a rule is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Rule:
    """Says at every step what may be taken; traced into the graph, never called back.

    A rule overrides what it needs. Its memory, if it has one, follows the hypotheses: it is
    re-ordered with them before `update_state` sees it.
    """

    of_sources: bool = False
    """Whether it says something else for each source, and so holds for one batch alone."""

    def memory(self, batch_size: Any, room: Any) -> Any:
        """What it keeps of a hypothesis that has taken nothing: a nest of `(B, 1, ...)`.

        Args:
            batch_size: B.
            room: most tokens of a hypothesis.
        """
        return ()

    def reweigh(self, logits: Any, memory: Any, step: Any) -> Any:
        """Other logits `(B, M, V)` float32 before they are normalised: another distribution.

        Args:
            logits: `(B, M, V)` float32.
            memory: a nest of `(B, M, ...)`.
            step: scalar int32, how many tokens were taken before.
        """
        return logits

    def allowed(self, shape: tuple[Any, ...], memory: Any, step: Any) -> Any:
        """`(B | 1, M | 1, V)` bool, what may be taken, or None for all.

        Taking the rest away leaves the log probabilities of what may be taken as they are.

        Args:
            shape: `(B, M, V)`.
            memory: a nest of `(B, M, ...)`.
            step: scalar int32, how many tokens were taken before.
        """
        return None

    def update_state(self, memory: Any, tokens: Any, step: Any) -> Any:
        """The memory after tokens `(B, N)` int32 were taken; the same shapes."""
        return memory


def as_rules(rules: Iterable[Rule] | Rule) -> tuple[Rule, ...]:
    """The rules, or the one rule; ValueError for what is none."""
    given = tuple(rules) if isinstance(rules, Iterable) else (rules,)
    for rule in given:
        if not isinstance(rule, Rule):
            raise ValueError(f"rules holds a {type(rule).__name__}: give a list of `decoding.Rule`")
    return given


def check_sources(name: str, x: Any, shape: tuple[Any, ...]) -> None:
    """ValueError unless `x (B, ...)` has a row for each of the sources searched, where known."""
    rows, batch = x.shape[0], shape[0]
    if isinstance(rows, int) and isinstance(batch, int) and rows != batch:
        raise ValueError(f"{name} is of shape {tuple(x.shape)} but there are {batch} sources")
