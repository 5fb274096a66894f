"""Scores: how alike are query and key. One file each, found by name."""

from attention_zoo.layers.scores.additive import AdditiveScore
from attention_zoo.layers.scores.base import SCORES, Score, make_score
from attention_zoo.layers.scores.concat import ConcatScore
from attention_zoo.layers.scores.dot import DotScore
from attention_zoo.layers.scores.general import GeneralScore
from attention_zoo.layers.scores.scaled_dot import ScaledDotScore

__all__ = [
    "SCORES",
    "AdditiveScore",
    "ConcatScore",
    "DotScore",
    "GeneralScore",
    "ScaledDotScore",
    "Score",
    "make_score",
]
