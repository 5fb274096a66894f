"""Beam search."""

from __future__ import annotations

import functools

from keras import ops

from attention_zoo.decoding.greedy import likeliest
from attention_zoo.decoding.hypotheses import Choice, take_hypotheses
from attention_zoo.decoding.options import METHODS
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import NEVER, Continuations, SearchResult, grow


def best_continuations(given: Continuations, width: int) -> Choice:
    """The `width` best of all continuations of M hypotheses; see `Choose`.

    Only the `width` best tokens of a hypothesis can be among them, so the vocabulary is read for
    one top-k and one log-sum-exp a row, and log probabilities of all tokens are not made. Measured
    on two cores under XLA, 160 rows of 8,000: 2.4 ms (top-k 1.6); log-softmax of all and one top-k
    over N x V 2.8 ms; `width` sweeps of argmax 4.6 to 6.4 ms for the top-k alone. A slice of what
    `top_k` gives (`top[..., :1]`) makes XLA sort the rows instead, at 190 ms: reduce, never slice.
    Equal ones come in the order of hypothesis, then token.
    """
    batch, hypotheses, vocabulary = ops.shape(given.logits)
    kept = min(width, vocabulary)
    top, tokens = ops.top_k(given.logits, kept)
    scores = given.log_probs[..., None] + (top - given.normaliser)
    scores = ops.where(scores > NEVER, scores, NEVER)  # NaN is no better
    count = hypotheses * kept
    scores = ops.reshape(scores, (batch, count))
    if count < width:
        scores = ops.pad(scores, ((0, 0), (0, width - count)), constant_values=NEVER)
    best, index = ops.top_k(scores, width)
    index = ops.minimum(ops.cast(index, "int32"), count - 1)
    tokens = ops.reshape(ops.cast(tokens, "int32"), (batch, count))
    return Choice(take_hypotheses(tokens, index), index // kept, best)


@METHODS.register("beam")
def beam(problem: Problem) -> SearchResult:
    """Takes the N likeliest of all continuations at every step; one hypothesis is greedy search."""
    width = problem.options.beam_width
    if width == 1:
        return grow(problem, likeliest)
    return grow(problem, functools.partial(best_continuations, width=width))
