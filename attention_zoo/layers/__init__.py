"""Layers. Shape letters, everywhere the same: B batch, T queries (target steps), S sources,
D features (Dq, Dk, Dv of query, key, value), H heads, A hidden units of a score, V vocabulary.
"""

from attention_zoo.layers.additive_attention import AdditiveAttention
from attention_zoo.layers.alignments import (
    ALIGNMENTS,
    Alignment,
    HardAlignment,
    MonotonicAlignment,
    SoftmaxAlignment,
)
from attention_zoo.layers.attention import Attention
from attention_zoo.layers.attention_cell import AttentionCell, CellState, Prepared, StepRecord
from attention_zoo.layers.dot_product_attention import DotProductAttention
from attention_zoo.layers.looks import Draws, Memory
from attention_zoo.layers.maxout import Maxout
from attention_zoo.layers.multiplicative_attention import MultiplicativeAttention
from attention_zoo.layers.pairs import EXCLUDED_PAIRS
from attention_zoo.layers.recurrent_decoder import RecurrentDecoder
from attention_zoo.layers.recurrent_encoder import RecurrentEncoder
from attention_zoo.layers.scores import (
    SCORES,
    AdditiveScore,
    ConcatScore,
    DotScore,
    GeneralScore,
    ScaledDotScore,
    Score,
)

__all__ = [
    "ALIGNMENTS",
    "EXCLUDED_PAIRS",
    "SCORES",
    "AdditiveAttention",
    "AdditiveScore",
    "Alignment",
    "Attention",
    "AttentionCell",
    "CellState",
    "ConcatScore",
    "DotProductAttention",
    "DotScore",
    "Draws",
    "GeneralScore",
    "HardAlignment",
    "Maxout",
    "Memory",
    "MonotonicAlignment",
    "MultiplicativeAttention",
    "Prepared",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "ScaledDotScore",
    "Score",
    "SoftmaxAlignment",
    "StepRecord",
]
