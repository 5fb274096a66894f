"""Decoding with any step function: greedy and beam search, sampling, contrastive search.

The search does not depend on the models.
"""

from attention_zoo.decoding import beam, contrastive, diverse_beam, sampling
from attention_zoo.decoding.beam import beam_search
from attention_zoo.decoding.ensemble import ensemble
from attention_zoo.decoding.options import METHODS, SearchOptions
from attention_zoo.decoding.rules import AllowedTokens, Automaton, Rule
from attention_zoo.decoding.search import SearchResult, search
from attention_zoo.decoding.step import InPlace, StepOutput

__all__ = [
    "METHODS",
    "AllowedTokens",
    "Automaton",
    "InPlace",
    "Rule",
    "SearchOptions",
    "SearchResult",
    "StepOutput",
    "beam",
    "beam_search",
    "contrastive",
    "diverse_beam",
    "ensemble",
    "sampling",
    "search",
]
