"""Base class of decoding rules that depend on the tokens generated so far."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.decoding.rules.base import Rule


class WrittenRule(Rule):
    """Rule whose memory is the prefix of each hypothesis, `(B, M, L)` int32, padded with -1."""

    def memory(self, batch_size: Any, room: Any) -> Any:
        return ops.zeros((batch_size, 1, room), dtype="int32") - 1

    def update_state(self, memory: Any, tokens: Any, step: Any) -> Any:
        return ops.slice_update(memory, (0, 0, step), tokens[..., None])


def among(tokens: Any, vocabulary: int) -> Any:
    """Return whether each id occurs in tokens `(B, M, L)`, as `(B, M, V)` bool; ignore ids < 0."""
    batch, width, room = ops.shape(tokens)
    rows = ops.arange(batch * width, dtype="int32")[:, None] * (vocabulary + 1)
    flat = ops.reshape(tokens, (batch * width, room))
    index = rows + ops.where(flat < 0, vocabulary, flat)
    size = batch * width * room
    counts = ops.scatter(
        ops.reshape(index, (size, 1)),
        ops.ones((size,), dtype="int32"),
        (batch * width * (vocabulary + 1),),
    )
    return ops.reshape(counts, (batch, width, vocabulary + 1))[..., :vocabulary] > 0
