"""Diverse beam search (Vijayakumar et al. 2018, arXiv:1610.02424)."""

from __future__ import annotations

import functools
from typing import Any

from keras import ops

from attention_zoo.decoding.beam import select_best_continuations
from attention_zoo.decoding.hypotheses import Choice
from attention_zoo.decoding.options import METHODS, SearchOptions
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import NEG_INF, Continuations, SearchResult, grow


def select_diverse_continuations(continuations: Continuations, options: SearchOptions) -> Choice:
    """Return the best continuations of each group in turn, penalizing tokens of earlier groups.

    The penalty of a token is proportional to the number of hypotheses of earlier groups that take
    it at this step (Hamming diversity, section 4). It only affects the selection: the returned log
    probabilities are the decoder's own.
    """
    size, penalty = options.beam_width // options.groups, options.diversity_penalty
    is_first_step = continuations.log_probs.shape[1] == 1  # all groups share one hypothesis
    token_counts: Any = 0.0
    choices = []
    for group in range(options.groups):
        first = 0 if is_first_step else group * size
        logits, normaliser, log_probs = (x[:, first : first + size] for x in continuations[:3])
        logits = logits - penalty * token_counts
        penalized = Continuations(logits, normaliser, log_probs, continuations.step)
        choice = select_best_continuations(penalized, size)
        is_valid = ops.cast(choice.log_probs > NEG_INF, "float32")[..., None]
        ids = ops.one_hot(choice.tokens, logits.shape[-1], dtype="float32")
        log_probs = choice.log_probs + penalty * ops.sum(ids * token_counts, axis=-1)
        choices.append(Choice(choice.tokens, choice.parents + first, log_probs))
        token_counts = token_counts + ops.sum(ids * is_valid, axis=1, keepdims=True)
    return Choice(*(ops.concatenate(parts, axis=1) for parts in zip(*choices, strict=True)))


@METHODS.register("diverse_beam")
def diverse_beam(problem: Problem) -> SearchResult:
    """Run beam search in groups, each penalized for the tokens that earlier groups take."""
    choose = functools.partial(select_diverse_continuations, options=problem.options)
    return grow(problem, choose, problem.options.groups)
