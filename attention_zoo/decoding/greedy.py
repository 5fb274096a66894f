"""Greedy search: the most likely token at every step."""

from __future__ import annotations

from keras import ops

from attention_zoo.decoding.hypotheses import Choice
from attention_zoo.decoding.search import NEVER, Continuations


def likeliest(given: Continuations) -> Choice:
    """Return the best continuation of each hypothesis, the lowest id on ties; see `Choose`."""
    tokens = ops.cast(ops.argmax(given.logits, axis=-1), "int32")
    top = ops.max(given.logits, axis=-1, initial=NEVER)  # `initial` permits an empty batch
    chosen = given.log_probs + (top - given.normaliser[..., 0])
    chosen = ops.where(chosen > NEVER, chosen, NEVER)
    return Choice(tokens, ops.zeros_like(tokens), chosen)
