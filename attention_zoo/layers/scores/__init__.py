"""Score functions of attention: each module registers one, and all modules are imported here."""

from attention_zoo.layers.scores.base import SCORES, Score, make_score
from attention_zoo.registry import import_modules

import_modules(__name__)

__all__ = ["SCORES", "Score", "make_score"]
