"""Diverse beam search (Vijayakumar et al. 2018, arXiv:1610.02424)."""

from __future__ import annotations

import functools
from typing import Any

from keras import ops

from attention_zoo.decoding.beam import best_continuations
from attention_zoo.decoding.hypotheses import Choice
from attention_zoo.decoding.options import METHODS
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import NEVER, Continuations, SearchResult, grow


def diverse_continuations(given: Continuations, width: int, groups: int, penalty: float) -> Choice:
    """Return the best continuations of each group in turn, penalizing tokens of earlier groups.

    The penalty of a token is proportional to the number of hypotheses of earlier groups that take
    it at this step (Hamming diversity, section 4). It only affects the selection: the returned log
    probabilities are the decoder's own.
    """
    size, vocabulary = width // groups, given.logits.shape[-1]
    taken: Any = 0.0
    chosen = []
    for group in range(groups):
        own = group_of(given, group, size)
        lowered = own._replace(logits=own.logits - penalty * taken)
        choice = best_continuations(lowered, size)
        live = ops.cast(choice.log_probs > NEVER, "float32")[..., None]
        ids = ops.one_hot(choice.tokens, vocabulary, dtype="float32")
        log_probs = choice.log_probs + penalty * ops.sum(ids * taken, axis=-1)
        first = group * size if given.log_probs.shape[1] == width else 0
        chosen.append(Choice(choice.tokens, choice.parents + first, log_probs))
        taken = taken + ops.sum(ids * live, axis=1, keepdims=True)
    return Choice(*(ops.concatenate(parts, axis=1) for parts in zip(*chosen, strict=True)))


def group_of(given: Continuations, group: int, size: int) -> Continuations:
    """Return the continuations of one group: at the first step, all groups share one hypothesis."""
    if given.log_probs.shape[1] == 1:
        return given
    here = slice(group * size, (group + 1) * size)
    logits, normaliser, log_probs = (x[:, here] for x in given[:3])
    return Continuations(logits, normaliser, log_probs, given.step)


@METHODS.register("diverse_beam")
def diverse_beam(problem: Problem) -> SearchResult:
    """Run beam search in groups, each penalized for the tokens that earlier groups take."""
    options = problem.options
    choose = functools.partial(
        diverse_continuations,
        width=options.beam_width,
        groups=options.groups,
        penalty=options.diversity_penalty,
    )
    return grow(problem, choose, options.groups)
