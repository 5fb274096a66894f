"""Beam search."""

from __future__ import annotations

import functools
from typing import Any

from keras import ops

from attention_zoo.decoding.greedy import select_most_likely
from attention_zoo.decoding.hypotheses import Choice, take_hypotheses
from attention_zoo.decoding.options import METHODS, SearchOptions
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import NEG_INF, Continuations, SearchResult, grow, search
from attention_zoo.decoding.step import StepFunction
from attention_zoo.ops import blocked_top_k


def select_best_continuations(continuations: Continuations, width: int) -> Choice:
    """Return the `width` best of all continuations of M hypotheses; see `ChoiceFunction`.

    Each hypothesis contributes its `width` best tokens at most. So the vocabulary axis is reduced
    by a top-k and one log-sum-exp per row, and the log probabilities of all tokens are never
    materialized. Do not slice the output of `top_k` (`top[..., :1]`): XLA then sorts whole rows,
    which takes 100 times as long. Use a reduction instead. Ties are ordered by hypothesis, then by
    token id.
    """
    batch, hypotheses, vocabulary = ops.shape(continuations.logits)
    num_tokens = min(width, vocabulary)
    top, tokens = blocked_top_k(continuations.logits, num_tokens)
    scores = continuations.log_probs[..., None] + (top - continuations.normaliser)
    scores = ops.where(scores > NEG_INF, scores, NEG_INF)  # NaN counts as -inf
    count = hypotheses * num_tokens
    scores = ops.reshape(scores, (batch, count))
    if count < width:
        scores = ops.pad(scores, ((0, 0), (0, width - count)), constant_values=NEG_INF)
    best, index = ops.top_k(scores, width)
    index = ops.minimum(ops.cast(index, "int32"), count - 1)
    tokens = ops.reshape(tokens, (batch, count))
    return Choice(take_hypotheses(tokens, index), index // num_tokens, best)


def select_full_beam(continuations: Continuations, width: int, end_token: int) -> Choice:
    """Return the `width` best unfinished continuations, then the finished ones of the `width` best.

    Other slots have log probability -inf. Of 2 `width` continuations, at most `width` end.
    """
    best = select_best_continuations(continuations, 2 * width)
    is_end = best.tokens == end_token
    log_probs, index = ops.top_k(ops.where(is_end, NEG_INF, best.log_probs), width)
    index = ops.cast(index, "int32")
    parts = take_hypotheses(best.tokens, index), take_hypotheses(best.parents, index), log_probs
    ended = best._replace(log_probs=ops.where(is_end, best.log_probs, NEG_INF)).take_first(width)
    return Choice(*(ops.concatenate(pair, axis=1) for pair in zip(parts, ended, strict=True)))


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
    arguments = {name: options.pop(name) for name in SEARCH_ARGUMENTS if name in options}
    options = {"n_best": beam_width, "beam_width": beam_width, "max_length": max_length} | options
    arguments |= {"batch_size": batch_size, "start_token": start_token, "end_token": end_token}
    return search(step, state, SearchOptions().override(**options), **arguments)


SEARCH_ARGUMENTS = ("pad_token", "source_mask", "source_keys", "prefix", "rules", "length_limits")
"""Optional arguments of `search` that are not search options."""


@METHODS.register("beam")
def beam(problem: Problem) -> SearchResult:
    """Run beam search: keep the N best continuations at every step. N = 1 is greedy search."""
    width = problem.options.beam_width
    if width == 1:
        return grow(problem, select_most_likely)
    if problem.options.fill_beam:
        end_token = problem.vocabulary.end_token
        return grow(problem, functools.partial(select_full_beam, width=width, end_token=end_token))
    return grow(problem, functools.partial(select_best_continuations, width=width))
