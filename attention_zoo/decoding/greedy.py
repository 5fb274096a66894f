"""Greedy search: the most likely token at every step."""

from __future__ import annotations

from keras import ops

from attention_zoo.decoding.hypotheses import Choice
from attention_zoo.decoding.search import NEG_INF, Continuations


def select_most_likely(continuations: Continuations) -> Choice:
    """Return the best continuation of each hypothesis, the lowest id on ties."""
    tokens = ops.cast(ops.argmax(continuations.logits, axis=-1), "int32")
    # `initial` permits an empty batch
    top = ops.max(continuations.logits, axis=-1, initial=NEG_INF)
    log_probs = continuations.log_probs + (top - continuations.normaliser[..., 0])
    log_probs = ops.where(log_probs > NEG_INF, log_probs, NEG_INF)
    return Choice(tokens, ops.zeros_like(tokens), log_probs)
