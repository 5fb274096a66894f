"""Positional encodings: absolute ones are added to embeddings, relative ones change scores.

A module of a relative encoding registers it, and all modules are imported here.
"""

from attention_zoo.layers.positions.base import POSITIONS, RelativePositions, make_positions
from attention_zoo.registry import import_modules

import_modules(__name__)

__all__ = ["POSITIONS", "RelativePositions", "make_positions"]
