"""Base class of decoding rules that depend on the tokens generated so far."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.decoding.rules.base import Rule
from attention_zoo.ops.buffers import append, empty_buffer


class TokenHistoryRule(Rule):
    """Base class of rules whose state is the prefixes, `(B, M, L)` int32.

    L is the number of tokens so far, or under XLA its limit, padded with -1 (see `ops.buffers`).
    """

    def initial_state(self, batch_size: Any, max_length: Any) -> Any:
        return empty_buffer((batch_size, 1, max_length), 2, "int32", fill=-1)

    def update_state(self, state: Any, tokens: Any, step: Any) -> Any:
        return append(state, tokens[..., None], step, axis=2)


def compute_occurrence_mask(tokens: Any, vocabulary: int) -> Any:
    """Return whether each id occurs in tokens `(B, M, L)`, as `(B, M, V)` bool; ignore ids < 0."""
    batch, width, length = ops.shape(tokens)
    rows = ops.arange(batch * width, dtype="int32")[:, None] * (vocabulary + 1)
    flat = ops.reshape(tokens, (batch * width, length))
    index = rows + ops.where(flat < 0, vocabulary, flat)
    size = batch * width * length
    index, ones = ops.reshape(index, (size, 1)), ops.ones((size,), dtype="int32")
    counts = ops.scatter(index, ones, (batch * width * (vocabulary + 1),))
    return ops.reshape(counts, (batch, width, vocabulary + 1))[..., :vocabulary] > 0
