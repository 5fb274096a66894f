"""Search: from a step function to the best sequences. Knows no model."""

from attention_zoo.decoding.beam import beam_search
from attention_zoo.decoding.greedy import greedy_search
from attention_zoo.decoding.search import SearchResult
from attention_zoo.decoding.step import StepOutput

__all__ = ["SearchResult", "StepOutput", "beam_search", "greedy_search"]
