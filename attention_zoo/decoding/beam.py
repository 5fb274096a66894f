"""Beam search."""

from __future__ import annotations

import functools
from typing import Any

from keras import ops

from attention_zoo.decoding.greedy import likeliest
from attention_zoo.decoding.hypotheses import Choice, take_hypotheses
from attention_zoo.decoding.options import METHODS, SearchOptions
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import NEVER, Continuations, SearchResult, grow, search
from attention_zoo.decoding.step import StepFunction
from attention_zoo.ops import blocked_top_k


def best_continuations(given: Continuations, width: int) -> Choice:
    """Return the `width` best of all continuations of M hypotheses; see `Choose`.

    Each hypothesis contributes its `width` best tokens at most. So the vocabulary axis is reduced
    by a top-k and one log-sum-exp per row, and the log probabilities of all tokens are never
    materialized. Do not slice the output of `top_k` (`top[..., :1]`): XLA then sorts whole rows,
    which takes 100 times as long. Use a reduction instead. Ties are ordered by hypothesis, then by
    token id.
    """
    batch, hypotheses, vocabulary = ops.shape(given.logits)
    kept = min(width, vocabulary)
    top, tokens = blocked_top_k(given.logits, kept)
    scores = given.log_probs[..., None] + (top - given.normaliser)
    scores = ops.where(scores > NEVER, scores, NEVER)  # NaN counts as -inf
    count = hypotheses * kept
    scores = ops.reshape(scores, (batch, count))
    if count < width:
        scores = ops.pad(scores, ((0, 0), (0, width - count)), constant_values=NEVER)
    best, index = ops.top_k(scores, width)
    index = ops.minimum(ops.cast(index, "int32"), count - 1)
    tokens = ops.reshape(tokens, (batch, count))
    return Choice(take_hypotheses(tokens, index), index // kept, best)


def beam_search(
    step: StepFunction,
    state: Any,
    *,
    batch_size: Any,
    start_token: Any,
    end_token: int,
    max_length: Any,
    beam_width: int,
    **options: Any,
) -> SearchResult:
    """Run beam search with `search`; return the whole beam unless `n_best` is given.

    Args:
        step, state, batch_size, start_token, end_token: see `search`.
        max_length, beam_width: see `SearchOptions`.
        **options: other fields of `SearchOptions`, and other arguments of `search`.

    Raises:
        ValueError: as in `search`.
    """
    request = {name: options.pop(name) for name in REQUEST if name in options}
    wanted = {"n_best": beam_width, **options, "max_length": max_length, "beam_width": beam_width}
    return search(
        step,
        state,
        SearchOptions().override(**wanted),
        batch_size=batch_size,
        start_token=start_token,
        end_token=end_token,
        **request,
    )


REQUEST = ("pad_token", "source_mask", "source_keys", "prefix", "rules")
"""Optional arguments of `search` that are not search options."""


@METHODS.register("beam")
def beam(problem: Problem) -> SearchResult:
    """Run beam search: keep the N best continuations at every step. N = 1 is greedy search."""
    width = problem.options.beam_width
    if width == 1:
        return grow(problem, likeliest)
    return grow(problem, functools.partial(best_continuations, width=width))
