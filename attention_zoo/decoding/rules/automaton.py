"""Decoding constrained by a finite automaton."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from attention_zoo.decoding.rules.base import Rule


class Automaton(Rule):
    """A rule that restricts outputs to the paths of a finite automaton, such as a grammar.

    Args:
        transitions: `(Q, V)` integers, the next state for each state and token; -1 bans the token.
            The initial state is 0. The end token has no special role: it is allowed in states that
            have a transition for it.

    Raises:
        ValueError: if the table is empty, not 2D or not of integers, or contains an unknown state.
    """

    def __init__(self, transitions: Any) -> None:
        table = np.asarray(transitions)
        if table.ndim != 2 or not table.size or table.dtype.kind not in "iu":
            raise ValueError(
                f"transitions must be integers (Q, V), got {table.dtype} of shape {table.shape}"
            )
        if table.max() >= len(table) or table.min() < -1:
            wrong = table.max() if table.max() >= len(table) else table.min()
            raise ValueError(
                f"transitions must be states from 0 to {len(table) - 1}, or -1, got {wrong}"
            )
        self.transitions = table.astype("int32")

    def memory(self, batch_size: Any, room: Any) -> Any:
        return ops.zeros((batch_size, 1), dtype="int32")

    def allowed(self, shape: tuple[Any, ...], memory: Any, step: Any) -> Any:
        if self.transitions.shape[1] != shape[-1]:
            raise ValueError(
                f"transitions is of shape {self.transitions.shape}: its last axis must be the "
                f"vocabulary size {shape[-1]}"
            )
        return ops.take(ops.convert_to_tensor(self.transitions), memory, axis=0) >= 0

    def update_state(self, memory: Any, tokens: Any, step: Any) -> Any:
        table = ops.convert_to_tensor(self.transitions.reshape(-1))
        index = memory * self.transitions.shape[1] + tokens
        return ops.maximum(ops.take(table, index, axis=0), 0)
