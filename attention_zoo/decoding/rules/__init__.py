"""Rules that constrain or reweight the tokens of a search, one kind per file."""

from __future__ import annotations

from typing import Any

from attention_zoo.decoding.options import SearchOptions
from attention_zoo.decoding.rules.allowed import AllowedTokens, BannedTokens
from attention_zoo.decoding.rules.automaton import Automaton
from attention_zoo.decoding.rules.base import Rule, as_rules
from attention_zoo.decoding.rules.ngrams import NoRepeatNgram
from attention_zoo.decoding.rules.positions import ForcedTokens, MinLength, Prefix
from attention_zoo.decoding.rules.repetition import RepetitionPenalty


def make_rules(options: SearchOptions, end_token: int, pad_token: int, prefix: Any) -> list[Rule]:
    """Return the rules that the options define."""
    rules: list[Rule] = []
    if options.repetition_penalty != 1:
        rules.append(RepetitionPenalty(options.repetition_penalty))
    if options.banned_tokens:
        rules.append(BannedTokens(options.banned_tokens))
    if options.min_length > 1:
        rules.append(MinLength(options.min_length, end_token))
    if options.no_repeat_ngram:
        rules.append(NoRepeatNgram(options.no_repeat_ngram))
    if options.plan:
        rules.append(ForcedTokens(options.plan))
    if prefix is not None:
        rules.append(Prefix(prefix, pad_token))
    return rules


__all__ = [
    "AllowedTokens",
    "Automaton",
    "BannedTokens",
    "ForcedTokens",
    "MinLength",
    "NoRepeatNgram",
    "Prefix",
    "RepetitionPenalty",
    "Rule",
    "as_rules",
    "make_rules",
]
