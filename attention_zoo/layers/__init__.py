"""Layers.

Shape letters in all docstrings: B batch, T queries (target steps), S sources, D features (Dq, Dk,
Dv of query, key, value), H heads, A hidden units of a score, V vocabulary.

Scores, alignments and relative positions are found by their decorator: a new one needs no import
here.
"""

from typing import TYPE_CHECKING

from attention_zoo.layers.alignments import ALIGNMENTS, Alignment
from attention_zoo.layers.alignments.reinforce import Choice
from attention_zoo.layers.attention.additive_attention import AdditiveAttention
from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.attention.attention_regularizer import AttentionRegularizer
from attention_zoo.layers.attention.coverage_attention import CoverageAttention
from attention_zoo.layers.attention.dot_product_attention import DotProductAttention
from attention_zoo.layers.attention.excluded_pairs import EXCLUDED_PAIRS
from attention_zoo.layers.attention.hard_attention import ESTIMATORS, HardAttention
from attention_zoo.layers.attention.local_attention import LocalAttention
from attention_zoo.layers.attention.location_sensitive_attention import LocationSensitiveAttention
from attention_zoo.layers.attention.monotonic_attention import MonotonicAttention
from attention_zoo.layers.attention.monotonic_chunkwise_attention import MonotonicChunkwiseAttention
from attention_zoo.layers.attention.multi_head_attention import MultiHeadAttention
from attention_zoo.layers.attention.multiplicative_attention import MultiplicativeAttention
from attention_zoo.layers.attention.self_attention import SelfAttention
from attention_zoo.layers.attention.steps import Memory, Noise
from attention_zoo.layers.attention.windowed_attention import WindowedAttention
from attention_zoo.layers.heads.copy_head import CopyHead
from attention_zoo.layers.heads.crf import CRF
from attention_zoo.layers.heads.marginal_mixture import MarginalMixture
from attention_zoo.layers.heads.maxout import Maxout
from attention_zoo.layers.positions import POSITIONS, RelativePositions
from attention_zoo.layers.positions.learned import LearnedPositions
from attention_zoo.layers.positions.sinusoidal import SinusoidalPositions
from attention_zoo.layers.recurrent.attention_cell import (
    AttentionCell,
    CellConstants,
    CellState,
    StepRecord,
)
from attention_zoo.layers.recurrent.recurrent_decoder import RecurrentDecoder
from attention_zoo.layers.recurrent.recurrent_encoder import RecurrentEncoder
from attention_zoo.layers.recurrent.scheduled_sampling import (
    SAMPLING_SCHEDULES,
    ConstantSampling,
    ExponentialSampling,
    InverseSigmoidSampling,
    LinearSampling,
    SamplingSchedule,
    ScheduledSampling,
)
from attention_zoo.layers.scores import SCORES, Score
from attention_zoo.layers.structures.attention_feature_map import AttentionFeatureMap
from attention_zoo.layers.structures.attention_pooling import AttentionPooling
from attention_zoo.layers.structures.attention_weighted_pooling import AttentionWeightedPooling
from attention_zoo.layers.structures.co_attention import CoAttention
from attention_zoo.layers.structures.hierarchical_attention import HierarchicalAttention
from attention_zoo.layers.structures.mixture_window_attention import MixtureWindowAttention
from attention_zoo.layers.structures.stacked_cross_attention import StackedCrossAttention
from attention_zoo.layers.structures.structured_self_attention import StructuredSelfAttention
from attention_zoo.layers.structures.visual_attention import VisualAttention
from attention_zoo.layers.text.character_cnn import CharacterCNN
from attention_zoo.layers.text.character_lstm import CharacterLSTM
from attention_zoo.layers.text.word_dropout import WordDropout
from attention_zoo.layers.transformer.decoder_layer import TransformerDecoderLayer
from attention_zoo.layers.transformer.encoder_layer import TransformerEncoderLayer
from attention_zoo.layers.transformer.feed_forward import FeedForward
from attention_zoo.layers.vision.glimpse_sensor import GlimpseSensor

_REGISTERED = {**SCORES.exports(), **ALIGNMENTS.exports(), **POSITIONS.exports()}
globals().update(_REGISTERED)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    __getattr__: Callable[[str], Any]  # the registered classes

__all__ = [
    "ALIGNMENTS",
    "CRF",
    "ESTIMATORS",
    "EXCLUDED_PAIRS",
    "POSITIONS",
    "SAMPLING_SCHEDULES",
    "SCORES",
    "AdditiveAttention",
    "Alignment",
    "Attention",
    "AttentionCell",
    "AttentionFeatureMap",
    "AttentionPooling",
    "AttentionRegularizer",
    "AttentionWeightedPooling",
    "CellConstants",
    "CellState",
    "CharacterCNN",
    "CharacterLSTM",
    "Choice",
    "CoAttention",
    "ConstantSampling",
    "CopyHead",
    "CoverageAttention",
    "DotProductAttention",
    "ExponentialSampling",
    "FeedForward",
    "GlimpseSensor",
    "HardAttention",
    "HierarchicalAttention",
    "InverseSigmoidSampling",
    "LearnedPositions",
    "LinearSampling",
    "LocalAttention",
    "LocationSensitiveAttention",
    "MarginalMixture",
    "Maxout",
    "Memory",
    "MixtureWindowAttention",
    "MonotonicAttention",
    "MonotonicChunkwiseAttention",
    "MultiHeadAttention",
    "MultiplicativeAttention",
    "Noise",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RelativePositions",
    "SamplingSchedule",
    "ScheduledSampling",
    "Score",
    "SelfAttention",
    "SinusoidalPositions",
    "StackedCrossAttention",
    "StepRecord",
    "StructuredSelfAttention",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "VisualAttention",
    "WindowedAttention",
    "WordDropout",
    *_REGISTERED,
]
