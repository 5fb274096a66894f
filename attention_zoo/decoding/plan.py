"""What is settled of an answer before it is searched, and what contradicts it.

A plan says which token must be taken at which place, the first place 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

Plan = dict[int, int]


class Vocabulary(NamedTuple):
    """The ids that a decoder writes.

    Attributes:
        size: how many there are (V), from 0.
        end_token, pad_token: two of them.
    """

    size: int
    end_token: int
    pad_token: int


def check_plan(name: str, plan: Plan, options: Any) -> None:
    """ValueError unless the options allow what a plan asks for, whatever the decoder.

    Args:
        name: what asks for it, for messages.
        plan: the tokens by place.
        options: `SearchOptions`.
    """
    banned = sorted(set(plan.values()) & set(options.banned_tokens))
    if banned:
        raise ValueError(
            f"{name} asks for token {banned[0]} and banned_tokens forbids it: choose one"
        )
    last, most = max(plan, default=-1), known(options.max_length)
    if most is not None and last >= most:
        raise ValueError(
            f"{name} has a token at place {last} but max_length is {most}: "
            "raise max_length or ask for less"
        )
    for ngram in repeated(plan, options.no_repeat_ngram):
        raise ValueError(
            f"{name} has {ngram} twice but no_repeat_ngram is {options.no_repeat_ngram}: choose one"
        )


def check_tokens(options: Any, vocabulary: Vocabulary) -> None:
    """ValueError for ids in options that the decoder does not have, or that contradict its end."""
    _check_ids("banned_tokens", options.banned_tokens, vocabulary)
    if len(set(options.banned_tokens)) == vocabulary.size:
        raise ValueError(f"banned_tokens forbids all {vocabulary.size} tokens: allow some")
    _check_ids("prefix_tokens", options.prefix_tokens, vocabulary)
    _check_ids("forced_tokens", options.forced_tokens.values(), vocabulary)
    _check_end(_asking(options), options.plan, options, vocabulary)


def check_prefix(prefix: np.ndarray, options: Any, vocabulary: Vocabulary) -> None:
    """ValueError where the tokens `(B, P)` that answers begin with cannot be taken."""
    if prefix.ndim != 2 or (prefix.size and prefix.dtype.kind not in "iu"):
        raise ValueError(f"prefix is {prefix.dtype} of shape {prefix.shape}: ids (B, P) are needed")
    for row, tokens in enumerate(prefix.tolist()):
        name = f"prefix of source {row}"
        plan = {at: one for at, one in enumerate(tokens) if one != vocabulary.pad_token}
        _check_ids(name, plan.values(), vocabulary)
        check_agreement(name, plan, _asking(options), options.plan)
        check_plan(name, options.plan | plan, options)
        _check_end(name, options.plan | plan, options, vocabulary)


def check_agreement(name: str, plan: Plan, other_name: str, other: Plan) -> None:
    """ValueError if two plans want different tokens at one place."""
    for place in sorted(plan.keys() & other.keys()):
        if plan[place] != other[place]:
            raise ValueError(
                f"{name} wants token {plan[place]} at place {place} and {other_name} "
                f"{other[place]}: choose one"
            )


def repeated(plan: Plan, size: int) -> Iterator[list[int]]:
    """The n-grams of settled tokens that come a second time; none for size 0."""
    seen = set()
    for first in sorted(plan) if size else ():
        ngram = tuple(plan.get(first + more, -1) for more in range(size))
        if ngram in seen:
            yield list(ngram)
        if -1 not in ngram:
            seen.add(ngram)


def known(x: Any) -> np.ndarray | None:
    """The values of a tensor; None where there is none, or where a graph will have them."""
    try:
        return None if x is None else np.asarray(x)
    except (ValueError, TypeError, NotImplementedError):  # a symbol, as each backend says it
        return None


def _asking(options: Any) -> str:
    return "forced_tokens" if options.forced_tokens else "prefix_tokens"


def _check_ids(name: str, tokens: Collection[int], vocabulary: Vocabulary) -> None:
    for token in tokens:
        if not 0 <= token < vocabulary.size:
            raise ValueError(
                f"{name} names token {token} but step gives logits of {vocabulary.size} tokens"
            )


def _check_end(name: str, plan: Plan, options: Any, vocabulary: Vocabulary) -> None:
    """ValueError where a plan ends answers too early, or before it is through."""
    ends = [place for place, token in plan.items() if token == vocabulary.end_token]
    if not ends:
        return
    end, last = min(ends), max(plan)
    if end + 1 < options.min_length:
        raise ValueError(
            f"{name} ends answers at place {end} but min_length is {options.min_length}: choose one"
        )
    if last > end:
        raise ValueError(
            f"{name} ends answers at place {end} and wants a token at place {last}: choose one"
        )
