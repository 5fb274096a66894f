"""Decoding constrained by a finite automaton."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from attention_zoo.decoding.rules.base import Rule, check_vocabulary


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
            last = len(table) - 1
            raise ValueError(f"transitions must be states from 0 to {last}, or -1, got {wrong}")
        self.transitions = table.astype("int32")

    def initial_state(self, batch_size: Any, max_length: Any) -> Any:
        return ops.zeros((batch_size, 1), dtype="int32")

    def compute_allowed_mask(self, shape: tuple[Any, ...], state: Any, step: Any) -> Any:
        check_vocabulary("transitions", self.transitions, shape)
        return ops.take(ops.convert_to_tensor(self.transitions), state, axis=0) >= 0

    def update_state(self, state: Any, tokens: Any, step: Any) -> Any:
        table = ops.convert_to_tensor(self.transitions.reshape(-1))
        index = state * self.transitions.shape[1] + tokens
        return ops.maximum(ops.take(table, index, axis=0), 0)
