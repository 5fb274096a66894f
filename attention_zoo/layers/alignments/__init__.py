"""Alignments (scores to attention weights), one per file, registered by name."""

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, make_alignment
from attention_zoo.layers.alignments.entmax import EntmaxAlignment
from attention_zoo.layers.alignments.gumbel import GumbelAlignment
from attention_zoo.layers.alignments.hard import HardAlignment
from attention_zoo.layers.alignments.local_monotonic import LocalMonotonicAlignment
from attention_zoo.layers.alignments.local_predictive import LocalPredictiveAlignment
from attention_zoo.layers.alignments.mocha import MochaAlignment
from attention_zoo.layers.alignments.monotonic import MonotonicAlignment
from attention_zoo.layers.alignments.reinforce import Choice, ReinforceAlignment
from attention_zoo.layers.alignments.sigmoid import SigmoidAlignment
from attention_zoo.layers.alignments.softmax import SoftmaxAlignment
from attention_zoo.layers.alignments.sparsemax import SparsemaxAlignment
from attention_zoo.layers.alignments.top_k import TopKAlignment

__all__ = [
    "ALIGNMENTS",
    "Alignment",
    "Choice",
    "EntmaxAlignment",
    "GumbelAlignment",
    "HardAlignment",
    "LocalMonotonicAlignment",
    "LocalPredictiveAlignment",
    "MochaAlignment",
    "MonotonicAlignment",
    "ReinforceAlignment",
    "SigmoidAlignment",
    "SoftmaxAlignment",
    "SparsemaxAlignment",
    "TopKAlignment",
    "make_alignment",
]
