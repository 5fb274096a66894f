"""Tokens that were taken become less likely."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.decoding.rules.base import Rule


class RepetitionPenalty(Rule):
    """Logits of tokens taken before are divided by the penalty, or multiplied where negative.

    Keskar et al. 2019 (arXiv:1909.05858), section 4.1; negative logits are multiplied so that a
    penalty above 1 lowers every logit.

    Args:
        penalty: above 1 discourages, below 1 encourages repetition.
    """

    def __init__(self, penalty: float) -> None:
        self.penalty = penalty

    def memory(self, batch_size: Any, room: Any) -> Any:
        return ops.zeros((batch_size, 1, room), dtype="int32") - 1

    def reweigh(self, logits: Any, memory: Any, step: Any) -> Any:
        taken = among(memory, logits.shape[-1])
        changed = ops.where(logits > 0, logits / self.penalty, logits * self.penalty)
        return ops.where(taken, changed, logits)

    def remember(self, memory: Any, tokens: Any, step: Any) -> Any:
        return write(memory, tokens, step)


def write(taken: Any, tokens: Any, step: Any) -> Any:
    """`taken (B, N, L)` with tokens `(B, N)` at a step."""
    return ops.slice_update(taken, (0, 0, step), tokens[..., None])


def among(tokens: Any, vocabulary: int) -> Any:
    """`(B, N, V)` bool, which ids are among tokens `(B, N, L)`; negative ones are none."""
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
