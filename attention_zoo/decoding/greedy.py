"""Greedy search: the likeliest token at every step."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.decoding.options import SearchOptions
from attention_zoo.decoding.search import Choice, SearchResult, search
from attention_zoo.decoding.step import StepFunction


def likeliest(logits: Any, log_probs: Any) -> Choice:
    """The best continuation of each hypothesis, the lower id among equals; see `Choose`."""
    tokens = ops.cast(ops.argmax(logits, axis=-1), "int32")
    top = ops.max(logits, axis=-1, initial=float("-inf"))  # `initial`: else no batch is refused
    chosen = log_probs + (top - ops.logsumexp(logits, axis=-1))
    chosen = ops.where(chosen > float("-inf"), chosen, float("-inf"))
    return Choice(tokens, ops.zeros_like(tokens), chosen)


def greedy_search(
    step: StepFunction,
    state: Any,
    *,
    batch_size: Any,
    start_token: Any,
    end_token: int,
    max_length: int,
    pad_token: int = 0,
) -> SearchResult:
    """Takes the likeliest token at every step until the end token or the maximum length.

    Args:
        step: `step(tokens (B, N) int32, state) -> StepOutput`, the memory captured in it.
        state: a nest of tensors `(B, ...)`; `()` for none.
        batch_size: B, an integer or a scalar tensor.
        start_token: the token fed first: an id, or ids `(B,)`.
        end_token: the id that ends a hypothesis.
        max_length: most tokens of a hypothesis, the end token among them.
        pad_token: what stands after the end.

    Returns:
        A `SearchResult` of one hypothesis for each source; its score is its log probability.

    Raises:
        ValueError: for an option out of range, or a state or step output of the wrong shape.
    """
    options = SearchOptions(start_token, end_token, max_length, pad_token=pad_token)
    return search(step, state, likeliest, batch_size, options)
