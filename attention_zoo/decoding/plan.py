"""Forced tokens, and the checks for conflicts with other options.

A plan maps positions, from 0, to the token that must be generated there.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.ops import whole_number
from attention_zoo.ops.arguments import format_value

Plan = dict[int, int]

check_integer = functools.partial(whole_number, high=2**31 - 1)


class Vocabulary(NamedTuple):
    """The token ids of a decoder.

    Attributes:
        size: number of ids (V).
        end_token, pad_token: ids of the end token and of padding.
    """

    size: int
    end_token: int
    pad_token: int


def check_forced_tokens(forced: Any) -> dict[int, int]:
    """Return forced tokens sorted by position; raise ValueError if they are invalid.

    Positions may be strings, as in JSON.
    """
    if not isinstance(forced, dict):
        value = format_value(forced)
        raise ValueError(f"forced_tokens must be {{position: token id}}, got {value}")
    forced_tokens: dict[int, int] = {}
    for key, token in forced.items():
        position = int(key) if isinstance(key, str) and key.isdecimal() else key
        position = check_integer("a position of forced_tokens", position, 0)
        token = check_integer("an id of forced_tokens", token, 0)
        if forced_tokens.setdefault(position, token) != token:
            raise ValueError(
                f"forced_tokens forces tokens {forced_tokens[position]} and {token} at position "
                f"{position}: remove one of them"
            )
    return dict(sorted(forced_tokens.items()))


def check_plan(name: str, plan: Plan, options: Any) -> None:
    """Raise ValueError if a plan conflicts with the options, for any decoder.

    Args:
        name: name of the plan in messages.
        plan: tokens by position.
        options: `SearchOptions`.
    """
    banned = sorted(set(plan.values()) & set(options.banned_tokens))
    if banned:
        raise ValueError(
            f"{name} forces token {banned[0]} but banned_tokens bans it: remove it from one of them"
        )
    last, max_length = max(plan, default=-1), get_static_value(options.max_length)
    if max_length is not None and last >= max_length - options.force_end:
        at_end = " and force_end needs the last position" if options.force_end else ""
        raise ValueError(
            f"{name} has a token at position {last} but max_length is {max_length}{at_end}: "
            "raise max_length or force fewer tokens"
        )
    for ngram in find_repeated_ngrams(plan, options.no_repeat_ngram):
        raise ValueError(
            f"{name} has n-gram {ngram} twice but no_repeat_ngram is {options.no_repeat_ngram}: "
            "change one of them"
        )


def check_tokens(options: Any, vocabulary: Vocabulary) -> None:
    """Raise ValueError if tokens in the options are out of range or conflict with the end token."""
    _check_ids("banned_tokens", options.banned_tokens, vocabulary)
    if len(set(options.banned_tokens)) == vocabulary.size:
        raise ValueError(f"banned_tokens bans all {vocabulary.size} tokens: allow some")
    _check_ids("prefix_tokens", options.prefix_tokens, vocabulary)
    _check_ids("forced_tokens", options.forced_tokens.values(), vocabulary)
    _check_ids("forced_start", options.start_plan.values(), vocabulary)
    _check_end(_get_plan_name(options), options.plan, options, vocabulary)
    if options.force_end and vocabulary.end_token in options.banned_tokens:
        raise ValueError(
            f"force_end generates the end token {vocabulary.end_token}, but banned_tokens bans it:"
            " remove one of them"
        )


def check_prefix(
    prefix: np.ndarray, options: Any, vocabulary: Vocabulary, names: Sequence[str] | None = None
) -> None:
    """Raise ValueError if the prefixes `(B, P)` are invalid or conflict with the options.

    `names` are used in messages.
    """
    if prefix.ndim != 2 or (prefix.size and prefix.dtype.kind not in "iu"):
        raise ValueError(f"prefix must be ids (B, P), got {prefix.dtype} of shape {prefix.shape}")
    for row, tokens in enumerate(prefix.tolist()):
        name = names[row] if names else f"prefix of source {row}"
        plan = {t: token for t, token in enumerate(tokens) if token != vocabulary.pad_token}
        _check_ids(name, plan.values(), vocabulary)
        check_agreement(name, plan, _get_plan_name(options), options.plan)
        check_plan(name, options.plan | plan, options)
        _check_end(name, options.plan | plan, options, vocabulary)


def check_agreement(name: str, plan: Plan, other_name: str, other: Plan) -> None:
    """Raise ValueError if two plans force different tokens at the same position."""
    for position in sorted(plan.keys() & other.keys()):
        if plan[position] != other[position]:
            raise ValueError(
                f"{name} forces token {plan[position]} at position {position} but {other_name} "
                f"forces {other[position]}: change one of them"
            )


def find_repeated_ngrams(plan: Plan, size: int) -> Iterator[list[int]]:
    """Yield the n-grams of forced tokens that occur again; none for size 0."""
    previous = set()
    for first in sorted(plan) if size else ():
        ngram = tuple(plan.get(first + offset, -1) for offset in range(size))
        if ngram in previous:
            yield list(ngram)
        if -1 not in ngram:
            previous.add(ngram)


def get_static_value(x: Any) -> np.ndarray | None:
    """Return the values of a tensor, or None for None and for symbolic tensors."""
    try:
        return None if x is None else np.asarray(x)
    except (ValueError, TypeError, NotImplementedError):  # symbolic; backends differ
        return None


def _get_plan_name(options: Any) -> str:
    """Return the name of the option that forces tokens, for messages."""
    if options.forced_tokens:
        return "forced_tokens"
    return "prefix_tokens" if options.prefix_tokens else "forced_start"


def _check_ids(name: str, tokens: Collection[int], vocabulary: Vocabulary) -> None:
    for token in tokens:
        if not 0 <= token < vocabulary.size:
            raise ValueError(f"{name} must be ids from 0 to {vocabulary.size - 1}, got {token}")


def _check_end(name: str, plan: Plan, options: Any, vocabulary: Vocabulary) -> None:
    """Raise ValueError if a plan forces the end token too early, or tokens after it."""
    ends = [position for position, token in plan.items() if token == vocabulary.end_token]
    if not ends:
        return
    end, last = min(ends), max(plan)
    min_length = get_static_value(options.min_length)
    if min_length is not None and end + 1 < min_length:
        raise ValueError(
            f"{name} forces the end token at position {end} but min_length is "
            f"{min_length}: lower min_length"
        )
    if last > end:
        raise ValueError(
            f"{name} forces the end token at position {end} and a token after it, at position "
            f"{last}: remove one of them"
        )
