"""Sampling with temperature, top-k, top-p and min-p."""

from __future__ import annotations

import functools
from typing import Any

from keras import ops

from attention_zoo.decoding.hypotheses import Choice
from attention_zoo.decoding.options import METHODS, SearchOptions
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import NEG_INF, Continuations, SearchResult, grow
from attention_zoo.ops import blocked_top_k
from attention_zoo.ops.random import gumbel


def sample_continuations(continuations: Continuations, options: SearchOptions, keys: Any) -> Choice:
    """Sample one token for each of N hypotheses; see `ChoiceFunction`.

    The token is the argmax of logits plus Gumbel noise. Its log probability is the decoder's own:
    temperature and filters affect the choice of tokens, not their scores.
    """
    width, vocabulary = options.beam_width, continuations.logits.shape[-1]
    batch, hypotheses = ops.shape(continuations.log_probs)
    logits = ops.broadcast_to(continuations.logits, (batch, width, vocabulary))
    candidate_logits, ids = filter_candidates(logits / options.temperature, options)
    noise = gumbel((options.seed, continuations.step), keys, (width, candidate_logits.shape[-1]))
    noisy = ops.where(candidate_logits > NEG_INF, candidate_logits + noise, NEG_INF)
    index = ops.argmax(noisy, axis=-1, keepdims=True)
    tokens = index if ids is None else ops.take_along_axis(ids, index, axis=-1)
    tokens = ops.cast(tokens, "int32")
    token_log_probs = ops.take_along_axis(logits, tokens, axis=-1) - continuations.normaliser
    log_probs = continuations.log_probs + token_log_probs[..., 0]
    log_probs = ops.where(log_probs > NEG_INF, log_probs, NEG_INF)
    parents = ops.arange(width, dtype="int32") if hypotheses == width else ops.zeros(width, "int32")
    return Choice(tokens[..., 0], ops.broadcast_to(parents, (batch, width)), log_probs)


def filter_candidates(logits: Any, options: SearchOptions) -> tuple[Any, Any]:
    """Return filtered logits `(B, N, K)`, -inf for excluded tokens, and their ids `(B, N, K)`.

    The ids are None if all tokens are candidates, in the order of the vocabulary.
    """
    if not any(map(options.is_set, ("top_k", "top_p", "min_p"))):
        return logits, None
    vocabulary = logits.shape[-1]
    logits, ids = blocked_top_k(logits, min(options.top_k or vocabulary, vocabulary))
    probs = ops.exp(logits - ops.logsumexp(logits, axis=-1, keepdims=True))
    before = ops.cumsum(probs, axis=-1) - probs
    max_prob = ops.max(probs, axis=-1, keepdims=True, initial=0.0)
    keep = ops.logical_and(before < options.top_p, probs >= options.min_p * max_prob)
    return ops.where(keep, logits, NEG_INF), ids


@METHODS.register("sampling")
def sampling(problem: Problem) -> SearchResult:
    """Sample `beam_width` sequences for each source."""
    options, keys = problem.options, problem.source_keys
    return grow(problem, functools.partial(sample_continuations, options=options, keys=keys))
