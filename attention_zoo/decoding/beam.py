"""Beam search."""

from __future__ import annotations

import functools

from keras import ops

from attention_zoo.decoding.greedy import likeliest
from attention_zoo.decoding.hypotheses import Choice, take_hypotheses
from attention_zoo.decoding.options import METHODS
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import NEVER, Continuations, SearchResult, grow
from attention_zoo.ops import greatest


def best_continuations(given: Continuations, width: int) -> Choice:
    """The `width` best of all continuations of M hypotheses; see `Choose`.

    Only the `width` best tokens of a hypothesis can be among them, so the vocabulary is read for
    them and for one log-sum-exp a row, and log probabilities of all tokens are not made. A slice
    of what `top_k` gives (`top[..., :1]`) makes XLA sort whole rows, at a hundred times its time:
    reduce, never slice. Equal ones come in the order of hypothesis, then token.
    """
    batch, hypotheses, vocabulary = ops.shape(given.logits)
    kept = min(width, vocabulary)
    top, tokens = greatest(given.logits, kept)
    scores = given.log_probs[..., None] + (top - given.normaliser)
    scores = ops.where(scores > NEVER, scores, NEVER)  # NaN is no better
    count = hypotheses * kept
    scores = ops.reshape(scores, (batch, count))
    if count < width:
        scores = ops.pad(scores, ((0, 0), (0, width - count)), constant_values=NEVER)
    best, index = ops.top_k(scores, width)
    index = ops.minimum(ops.cast(index, "int32"), count - 1)
    tokens = ops.reshape(tokens, (batch, count))
    return Choice(take_hypotheses(tokens, index), index // kept, best)


@METHODS.register("beam")
def beam(problem: Problem) -> SearchResult:
    """Takes the N likeliest of all continuations at every step; one hypothesis is greedy search."""
    width = problem.options.beam_width
    if width == 1:
        return grow(problem, likeliest)
    return grow(problem, functools.partial(best_continuations, width=width))
