"""Matching of two texts: their class, a number, or a ranking."""

from attention_zoo.tasks.matching.result import MatchingResult
from attention_zoo.tasks.matching.task import Matching

__all__ = ["Matching", "MatchingResult"]
