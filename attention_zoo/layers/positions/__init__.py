"""Positional encodings: absolute ones are added to embeddings, relative ones change scores."""

from attention_zoo.layers.positions.alibi import AlibiPositions
from attention_zoo.layers.positions.base import POSITIONS, RelativePositions, make_positions
from attention_zoo.layers.positions.learned import LearnedPositions
from attention_zoo.layers.positions.rotary import RotaryPositions
from attention_zoo.layers.positions.shaw import ShawPositions
from attention_zoo.layers.positions.sinusoidal import SinusoidalPositions
from attention_zoo.layers.positions.t5 import T5Positions

__all__ = [
    "POSITIONS",
    "AlibiPositions",
    "LearnedPositions",
    "RelativePositions",
    "RotaryPositions",
    "ShawPositions",
    "SinusoidalPositions",
    "T5Positions",
    "make_positions",
]
