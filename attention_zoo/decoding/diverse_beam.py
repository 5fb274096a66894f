"""Diverse beam search (Vijayakumar et al. 2018, arXiv:1610.02424)."""

from __future__ import annotations

import functools
from typing import Any

from keras import ops

from attention_zoo.decoding.beam import select_best_continuations
from attention_zoo.decoding.hypotheses import Choice, take_hypotheses
from attention_zoo.decoding.options import METHODS, SearchOptions
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import NEG_INF, Continuations, SearchResult, grow

REPEAT_PENALTY = 1e9
"""Penalty of a continuation that an earlier group selected."""


def select_diverse_continuations(continuations: Continuations, options: SearchOptions) -> Choice:
    """Return the best continuations of each group in turn, penalizing tokens of earlier groups.

    The penalty of a token is proportional to the number of hypotheses of earlier groups that take
    it at this step (Hamming diversity, section 4). If more hypotheses are requested than a group
    has, a group also avoids the hypotheses of earlier groups. Penalties only affect the selection:
    the returned log probabilities are the decoder's own.
    """
    size, penalty = options.beam_width // options.groups, options.diversity_penalty
    is_first_step = continuations.log_probs.shape[1] == 1  # all groups share one hypothesis
    token_counts: Any = 0.0
    repeats: Any = 0.0
    choices: list[Choice] = []
    for group in range(options.groups):
        first = 0 if is_first_step else group * size
        members = slice(first, first + size)
        logits, normaliser, log_probs = (x[:, members] for x in continuations[:3])
        if choices and options.n_best > size:
            repeats = _count_repeats(continuations, members, choices)
        penalized = logits - penalty * token_counts - REPEAT_PENALTY * repeats
        rows = continuations._replace(logits=penalized, normaliser=normaliser, log_probs=log_probs)
        choice = select_best_continuations(rows, size)
        scores = _score(logits, normaliser, log_probs, choice)
        scores = ops.where(choice.log_probs == NEG_INF, NEG_INF, scores)
        choices.append(Choice(choice.tokens, choice.parents + first, scores))
        ids = _encode_valid_tokens(choices[-1], logits.shape[-1])
        token_counts = token_counts + ops.sum(ids, axis=1, keepdims=True)
    return _join(choices)


def _count_repeats(continuations: Continuations, members: slice, choices: list[Choice]) -> Any:
    """Count the copies of each continuation of a group in earlier groups, `(B, M, V)`."""
    chosen = _join(choices)
    ids = continuations.prefix_ids
    chosen_ids = take_hypotheses(ids, chosen.parents)
    is_equal = ops.cast(ids[:, members, None] == chosen_ids[:, None], "float32")
    return ops.matmul(is_equal, _encode_valid_tokens(chosen, continuations.logits.shape[-1]))


def _score(logits: Any, normaliser: Any, log_probs: Any, choice: Choice) -> Any:
    """Return the log probabilities of the chosen continuations without penalties, `(B, N)`."""
    index = choice.parents * logits.shape[-1] + choice.tokens
    flat = ops.reshape(logits, (-1, logits.shape[1] * logits.shape[2]))
    chosen_logits = ops.take_along_axis(flat, index, axis=1)
    offsets = take_hypotheses(log_probs - normaliser[..., 0], choice.parents)
    return offsets + chosen_logits


def _encode_valid_tokens(choice: Choice, vocabulary: int) -> Any:
    """Return the chosen tokens as `(B, N, V)` float32, 0 for invalid continuations."""
    is_valid = ops.cast(choice.log_probs > NEG_INF, "float32")[..., None]
    return ops.one_hot(choice.tokens, vocabulary, dtype="float32") * is_valid


def _join(choices: list[Choice]) -> Choice:
    return Choice(*(ops.concatenate(parts, axis=1) for parts in zip(*choices, strict=True)))


@METHODS.register("diverse_beam")
def diverse_beam(problem: Problem) -> SearchResult:
    """Run beam search in groups, each penalized for the tokens that earlier groups take."""
    choose = functools.partial(select_diverse_continuations, options=problem.options)
    return grow(problem, choose, problem.options.groups)
