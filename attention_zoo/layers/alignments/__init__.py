"""Alignments: where to look, given scores. One file each, found by name."""

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, make_alignment
from attention_zoo.layers.alignments.hard import HardAlignment
from attention_zoo.layers.alignments.monotonic import MonotonicAlignment
from attention_zoo.layers.alignments.softmax import SoftmaxAlignment

__all__ = [
    "ALIGNMENTS",
    "Alignment",
    "HardAlignment",
    "MonotonicAlignment",
    "SoftmaxAlignment",
    "make_alignment",
]
