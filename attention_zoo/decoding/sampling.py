"""Sampling with temperature, top-k, top-p and min-p."""

from __future__ import annotations

import functools
from typing import Any

from keras import ops

from attention_zoo.decoding.hypotheses import Choice
from attention_zoo.decoding.options import METHODS, SearchOptions
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import NEVER, Continuations, SearchResult, grow
from attention_zoo.ops import blocked_top_k
from attention_zoo.ops.random import gumbel


def draw(given: Continuations, options: SearchOptions, keys: Any) -> Choice:
    """Sample one token for each of N hypotheses; see `Choose`.

    The token is the argmax of logits plus Gumbel noise. Its log probability is the decoder's own:
    temperature and filters affect the choice of tokens, not their scores.
    """
    width, vocabulary = options.beam_width, given.logits.shape[-1]
    batch, hypotheses = ops.shape(given.log_probs)
    logits = ops.broadcast_to(given.logits, (batch, width, vocabulary))
    likely, ids = candidates(logits / options.temperature, options)
    noise = gumbel((options.seed, given.step), keys, (width, likely.shape[-1]))
    noisy = ops.where(likely > NEVER, likely + noise, NEVER)
    place = ops.argmax(noisy, axis=-1, keepdims=True)
    tokens = place if ids is None else ops.take_along_axis(ids, place, axis=-1)
    tokens = ops.cast(tokens, "int32")
    drawn = ops.take_along_axis(logits, tokens, axis=-1) - given.normaliser
    log_probs = given.log_probs + drawn[..., 0]
    log_probs = ops.where(log_probs > NEVER, log_probs, NEVER)
    own = ops.arange(width, dtype="int32") if hypotheses == width else ops.zeros(width, "int32")
    return Choice(tokens[..., 0], ops.broadcast_to(own, (batch, width)), log_probs)


def candidates(logits: Any, options: SearchOptions) -> tuple[Any, Any]:
    """Return filtered logits `(B, N, K)`, -inf for excluded tokens, and their ids `(B, N, K)`.

    The ids are None if all tokens are candidates, in the order of the vocabulary.
    """
    if not options.top_k and options.top_p == 1 and not options.min_p:
        return logits, None
    vocabulary = logits.shape[-1]
    logits, ids = blocked_top_k(logits, min(options.top_k or vocabulary, vocabulary))
    shares = ops.exp(logits - ops.logsumexp(logits, axis=-1, keepdims=True))
    before = ops.cumsum(shares, axis=-1) - shares
    most = ops.max(shares, axis=-1, keepdims=True, initial=0.0)
    kept = ops.logical_and(before < options.top_p, shares >= options.min_p * most)
    return ops.where(kept, logits, NEVER), ids


@METHODS.register("sampling")
def sampling(problem: Problem) -> SearchResult:
    """Sample `beam_width` sequences for each source."""
    keys = problem.source_keys
    return grow(problem, functools.partial(draw, options=problem.options, keys=keys))
