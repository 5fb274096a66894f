"""Score functions of attention, one per file, registered by name."""

from attention_zoo.layers.scores.additive import AdditiveScore
from attention_zoo.layers.scores.base import SCORES, Score, make_score
from attention_zoo.layers.scores.bilinear import BilinearScore
from attention_zoo.layers.scores.concat import ConcatScore
from attention_zoo.layers.scores.cosine import CosineScore
from attention_zoo.layers.scores.coverage import CoverageScore
from attention_zoo.layers.scores.dot import DotScore
from attention_zoo.layers.scores.euclidean import EuclideanScore
from attention_zoo.layers.scores.general import GeneralScore
from attention_zoo.layers.scores.location import LocationScore
from attention_zoo.layers.scores.location_sensitive import LocationSensitiveScore
from attention_zoo.layers.scores.scaled_dot import ScaledDotScore
from attention_zoo.layers.scores.trilinear import TrilinearScore

__all__ = [
    "SCORES",
    "AdditiveScore",
    "BilinearScore",
    "ConcatScore",
    "CosineScore",
    "CoverageScore",
    "DotScore",
    "EuclideanScore",
    "GeneralScore",
    "LocationScore",
    "LocationSensitiveScore",
    "ScaledDotScore",
    "Score",
    "TrilinearScore",
    "make_score",
]
