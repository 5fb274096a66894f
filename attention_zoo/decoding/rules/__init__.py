"""Rules that constrain or reweight the tokens of a search, one kind per file."""

from __future__ import annotations

from typing import Any

from attention_zoo.decoding.options import SearchOptions
from attention_zoo.decoding.plan import Vocabulary
from attention_zoo.decoding.rules.allowed import AllowedTokens, BannedTokens
from attention_zoo.decoding.rules.automaton import Automaton
from attention_zoo.decoding.rules.base import Rule, as_rules
from attention_zoo.decoding.rules.ngrams import NoRepeatNgram, NoRepeatSourceNgram
from attention_zoo.decoding.rules.positions import (
    ForcedEnd,
    ForcedStart,
    ForcedTokens,
    MinLength,
    Prefix,
)
from attention_zoo.decoding.rules.repetition import RepetitionPenalty


def make_rules(
    options: SearchOptions, vocabulary: Vocabulary, prefix: Any, limits: Any, source: Any = None
) -> list[Rule]:
    """Return the rules that the options define, for prefixes, length limits and source tokens.

    Raises:
        ValueError: an option needs the source tokens, and there are none.
    """
    if options.no_repeat_source_ngram and source is None:
        raise ValueError(
            "no_repeat_source_ngram needs source_tokens (B, S), got None: pass the token ids of the"
            " sources, or set it to 0 for sources that are no text"
        )
    end_token, pad_token = vocabulary.end_token, vocabulary.pad_token
    penalty, ngram = options.repetition_penalty, options.no_repeat_ngram
    ends = limits if options.force_end else None
    source_ngram, first_step = options.no_repeat_source_ngram, len(options.start_plan)
    source_rule = None
    if source_ngram:
        source_rule = NoRepeatSourceNgram(source_ngram, source, pad_token, ends, first_step)
    rules: list[Rule | None] = [
        RepetitionPenalty(penalty) if options.is_set("repetition_penalty") else None,
        BannedTokens(options.banned_tokens) if options.banned_tokens else None,
        MinLength(options.min_length, end_token, ends) if options.is_set("min_length") else None,
        None if options.forced_start is None else ForcedStart(options.forced_start),
        ForcedEnd(limits, end_token) if options.force_end else None,
        NoRepeatNgram(ngram) if ngram else None,
        source_rule,
        ForcedTokens(options.plan) if options.plan else None,
        Prefix(prefix, pad_token) if prefix is not None else None,
    ]
    return [rule for rule in rules if rule is not None]


__all__ = [
    "AllowedTokens",
    "Automaton",
    "BannedTokens",
    "ForcedEnd",
    "ForcedStart",
    "ForcedTokens",
    "MinLength",
    "NoRepeatNgram",
    "NoRepeatSourceNgram",
    "Prefix",
    "RepetitionPenalty",
    "Rule",
    "as_rules",
    "make_rules",
]
