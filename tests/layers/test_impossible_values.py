"""Invalid constructor arguments: the error of each constructor names the argument."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import layers, losses
from tests.refusals import refuses

NUMBERS = (math.nan, "1", True, None)
COUNTS = (0, -1, 2.0, *NUMBERS)
LOWEST = (-0.5, math.inf, *NUMBERS)
"""Invalid values of arguments that must be finite and at least 0."""

cell = keras.layers.GRUCell


def attending(**options: Any) -> layers.AttentionCell:
    return layers.AttentionCell(cell(4), **{"attention": layers.AdditiveAttention(3), **options})


HEADS = partial(layers.MultiHeadAttention, num_heads=4, key_dim=3)
HOPS = partial(layers.StructuredSelfAttention, units=4, hops=2)
WINDOWS = partial(layers.WindowedAttention, num_heads=1, key_dim=2, window=1)
ENCODER = partial(layers.TransformerEncoderLayer, 8, 2)

WITH_UNITS = (
    *(layers.AdditiveScore, layers.ConcatScore, layers.CoverageScore, layers.CoverageAttention),
    *(layers.AdditiveAttention, layers.VisualAttention, layers.LocalPredictiveAlignment),
    *(layers.MonotonicAttention, layers.MonotonicChunkwiseAttention),
    *(layers.LocationSensitiveScore, layers.LocationSensitiveAttention),
)
NUMERIC: list[tuple[Callable[..., Any], str, tuple[Any, ...]]] = [
    (partial(layers.Attention, "additive"), "units", COUNTS[:-1]),
    *((make, "units", COUNTS[:-1]) for make in WITH_UNITS),
    (layers.LocationSensitiveScore, "filters", COUNTS),
    (layers.LocationSensitiveScore, "kernel_size", COUNTS),
    (layers.LocationSensitiveAttention, "filters", COUNTS),
    (layers.LocationSensitiveAttention, "kernel_size", COUNTS),
    (layers.LocationScore, "max_length", COUNTS[:-1]),
    (layers.CosineScore, "temperature", (0, *LOWEST)),
    (layers.EntmaxAlignment, "alpha", (1, 0.5, 2.1, math.inf, *NUMBERS)),
    (layers.GumbelAlignment, "temperature", (0, *LOWEST)),
    (layers.GumbelAlignment, "seed", (-1, 1.5, "1")),
    (layers.MonotonicAttention, "seed", (-1, 1.5, "1")),
    (layers.ReinforceAlignment, "expected_rate", (1, *LOWEST)),
    (layers.SigmoidAlignment, "bias_init", (math.inf, *NUMBERS)),
    (layers.TopKAlignment, "k", COUNTS),
    (layers.LocalMonotonicAlignment, "window", COUNTS[1:]),
    (layers.LocalPredictiveAlignment, "window", COUNTS[1:]),
    (layers.LocalAttention, "window", COUNTS[1:]),
    (layers.MonotonicAlignment, "score_bias_init", (math.inf, *NUMBERS)),
    (layers.MonotonicAlignment, "sigmoid_noise", LOWEST),
    (layers.MonotonicAttention, "sigmoid_noise", LOWEST),
    (layers.MonotonicChunkwiseAttention, "sigmoid_noise", LOWEST),
    (layers.MonotonicChunkwiseAttention, "chunk_size", COUNTS),
    (layers.MochaAlignment, "chunk_size", COUNTS),
    (layers.MixtureWindowAttention, "num_components", COUNTS),
    (layers.Attention, "dropout", (1, *LOWEST)),
    (layers.AttentionPooling, "dropout", (1, *LOWEST)),
    (layers.SelfAttention, "dropout", (1, *LOWEST)),
    (partial(layers.SelfAttention, use_projection=True), "units", COUNTS[:-1]),
    (HEADS, "num_heads", COUNTS),
    (HEADS, "key_dim", COUNTS),
    (HEADS, "value_dim", COUNTS[:-1]),
    (HEADS, "num_key_value_heads", (3, *COUNTS[:-1])),
    (HOPS, "units", COUNTS),
    (HOPS, "hops", COUNTS),
    (HOPS, "penalty", LOWEST[:-1]),
    (WINDOWS, "window", COUNTS[1:]),
    (WINDOWS, "num_global_tokens", COUNTS[1:]),
    (ENCODER, "stochastic_depth", (1, *LOWEST)),
    (layers.FeedForward, "units", COUNTS),
    (layers.AttentionFeatureMap, "max_length", COUNTS),
    (layers.AttentionWeightedPooling, "window", COUNTS),
    (layers.StackedCrossAttention, "inverse_temperature", (0, *LOWEST)),
    (layers.StackedCrossAttention, "pooling_sharpness", (0, *LOWEST)),
    (partial(layers.GlimpseSensor, size=3), "size", COUNTS),
    (partial(layers.GlimpseSensor, size=3), "scales", COUNTS),
    (layers.CRF, "num_tags", COUNTS[:-1]),
    (layers.CopyHead, "copies", COUNTS[1:]),
    (layers.WordDropout, "rate", (1.1, *LOWEST)),
    (partial(layers.AttentionRegularizer, "coverage"), "rate", (math.inf, *NUMBERS)),
    (layers.LearnedPositions, "max_length", COUNTS),
    (layers.SinusoidalPositions, "max_wavelength", (1, *LOWEST)),
    (layers.RotaryPositions, "max_wavelength", (1, *LOWEST)),
    (layers.ShawPositions, "max_distance", COUNTS),
    (layers.T5Positions, "num_buckets", (1, 5, *COUNTS)),
    (partial(layers.T5Positions, bidirectional=False), "num_buckets", (1, *COUNTS)),
    (layers.T5Positions, "max_distance", (8, *COUNTS)),
    (attending, "attention_layer_size", COUNTS[:-1]),
    (layers.ConstantSampling, "probability", (1.1, *LOWEST)),
    (layers.LinearSampling, "start", (2, *LOWEST)),
    (layers.LinearSampling, "slope", LOWEST),
    (layers.LinearSampling, "floor", (2, *LOWEST)),
    (layers.ExponentialSampling, "base", (1.5, *LOWEST)),
    (layers.InverseSigmoidSampling, "k", (0.5, *LOWEST)),
    (losses.Reinforce, "baseline_decay", (1, *LOWEST)),
    (losses.Reinforce, "coefficient", LOWEST),
    (losses.Reinforce, "entropy_bonus", LOWEST),
    (losses.HardestNegatives, "margin", LOWEST),
    (losses.HardestNegatives, "sharpness", (0, *LOWEST[:-1])),
    (losses.GlimpseLoss, "coefficient", LOWEST),
    (losses.GlimpseLoss, "label_smoothing", (1, *LOWEST)),
    (losses.SequenceCrossEntropy, "label_smoothing", (1, *LOWEST)),
    (losses.TagCrossEntropy, "label_smoothing", (1, *LOWEST)),
]


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        pytest.param(make, name, value, id=f"{getattr(make, 'func', make).__name__}-{name}-{value}")
        for make, name, values in NUMERIC
        for value in values
    ],
)
def test_invalid_values_are_rejected(make: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"\b{name}\b.*, got {re.escape(repr(value))}"):
        make(**{name: value})


SENSITIVE, CHUNKWISE = layers.LocationSensitiveAttention, layers.MonotonicChunkwiseAttention
FEATURE_MAP = partial(layers.AttentionFeatureMap, 5)
WEIGHTED_POOLING = partial(layers.AttentionWeightedPooling, 2)
STACKED = layers.StackedCrossAttention
READER = partial(layers.RecurrentEncoder, cell="gru", units=4, bidirectional=True)
TAGS = ["O", "B-A", "I-A", "B-B"]
SLOP = {"schedule": "linear", "slop": 0.25}

REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (layers.Attention, {"alignment": "sofmax"}, "did you mean 'softmax'"),
    (layers.Attention, {"score": "aditive"}, "did you mean 'additive'"),
    (layers.Attention, {"score": "dot", "units": 4}, "score 'dot' does not accept units"),
    (layers.Attention, {"score": layers.DotScore(), "units": 4}, "units given with a score in"),
    (layers.LocationScore, {}, "needs max_length, the length of the longest memory"),
    (layers.BilinearScore, {"activation": "tnah"}, "tnah"),
    (layers.CoverageAttention, {"alignment": "local_monotonic"}, "use another score or a global"),
    (SENSITIVE, {"alignment": "local_predictive"}, "use another score or a global alignment"),
    (layers.EntmaxAlignment, {"alpha": 1}, r"alpha must be in \(1, 2\], got 1.*'softmax'"),
    (
        partial(layers.EntmaxAlignment, 2.0),
        {"learn_alpha": True},
        "must be below 2 with learn_alpha=True, got 2; use",
    ),
    (layers.HardAttention, {"estimator": "gumble"}, "unknown estimator 'gumble'; did.*'gumbel'"),
    (layers.LocalAttention, {"kind": "monotone"}, "kind must be one of .*; did.*'monotonic'"),
    (layers.LocalAttention, {"score": "general", "units": 8}, "does not accept units"),
    (layers.MonotonicAlignment, {"form": "hard"}, "form must be one of parallel, recursive, got"),
    (layers.MochaAlignment, {"chunk_score": "aditive"}, "did you mean 'additive'"),
    (
        layers.MochaAlignment,
        {"chunk_score": layers.CoverageScore()},
        "chunk_score must be stateless, got .*; use a score",
    ),
    (layers.MonotonicAttention, {"form": "sequential"}, "form must be one of"),
    (layers.MonotonicAttention, {"score": "generl"}, "did you mean 'general'"),
    (CHUNKWISE, {"form": "sequential"}, "form must be one of"),
    (CHUNKWISE, {"score": "generl"}, "did you mean 'general'"),
    (CHUNKWISE, {"units": 4, "chunk_score": layers.DotScore()}, "set it on the score itself"),
    (HEADS, {"num_key_value_heads": 3}, "num_key_value_heads must divide num_heads, got 3 for 4"),
    (HEADS, {"score": "scaled_bot"}, "did you mean 'scaled_dot'"),
    (HEADS, {"score": "coverage", "alignment": "local_predictive"}, "score 'coverage'"),
    (HEADS, {"positions": "rotory"}, "did you mean 'rotary'"),
    (HEADS, {"positions": "shaw", "value_dim": 5}, "so value_dim must be 3 too, got 5"),
    (layers.SelfAttention, {"units": 4}, "units is the width of the projections, got 4 without"),
    (layers.SelfAttention, {"alignment": "sofmax"}, "did you mean 'softmax'"),
    (layers.CoAttention, {"score": "trilinea"}, "did you mean 'trilinear'"),
    (layers.AttentionPooling, {"score": "aditive"}, "did you mean 'additive'"),
    (FEATURE_MAP, {"score": "coverage"}, "CoverageScore depends on previous attention"),
    (WEIGHTED_POOLING, {"score": "location_sensitive"}, "SensitiveScore depends on previous"),
    (STACKED, {"direction": "image-to-text"}, "direction must be one of .*mean 'image_to_text'"),
    (STACKED, {"pooling": "mean"}, "pooling must be one of average, log_sum_exp"),
    (ENCODER, {"norm": "layr"}, "unknown norm 'layr'; did you mean 'layer'"),
    (layers.Maxout, {"units": 0}, "at least 1, got 0 and 2"),
    (
        layers.AttentionRegularizer,
        {"penalty": "coverag"},
        "unknown penalty 'coverag'; did.*'coverage'",
    ),
    (attending, {"order": "sideways"}, "order must be one of attend_then_step, step_then_attend"),
    (attending, {"attention": [], "input_feeding": True}, r"input_feeding requires an .*=\[\]"),
    (READER, {"cell": "lsmt"}, "cell must be one of lstm, gru, simple_rnn"),
    (READER, {"go_backwards": True}, "go_backwards and bidirectional cannot be"),
    (READER, {"units": 5}, "even number of units"),
    (partial(layers.CharacterLSTM, 8, 3), {"units": 5}, "even number of units, got 5"),
    (layers.CRF, {"num_tags": 3, "tags": TAGS}, "num_tags must equal .*, got 3 and 4"),
    (layers.CRF, {"num_tags": 4, "tag_scheme": "BIO"}, "'BIO' needs tags"),
    (layers.CRF, {"tags": "BMES"}, "tags must be a list of names, got 'BMES'"),
    (layers.CRF, {"tags": TAGS, "tag_scheme": "BIOE"}, "did you mean 'BIOES'"),
    (layers.ScheduledSampling, {"schedule": "lineer"}, "did you mean 'linear'"),
    (layers.ScheduledSampling, {"schedule": SLOP}, "has no argument 'slop'; did you mean 'slope'"),
    (losses.GuidedAlignment, {"kind": "crossentropy"}, "did you mean 'cross_entropy'"),
]


@refuses(*REFUSED)
def test_invalid_options_are_rejected(make: Callable[..., Any], options: dict[str, Any]) -> None:
    make(**options)


def test_numbers_of_numpy_are_numbers() -> None:
    config = layers.AdditiveScore(units=np.int64(3)).get_config()
    assert type(config["units"]) is int
    assert layers.CosineScore(temperature=np.float32(0.5)).temperature == 0.5


@pytest.mark.parametrize("inputs", [None, "gru", [], ["gru"], keras.layers.GRU(4)], ids=str)
def test_non_cell_is_rejected(inputs: Any) -> None:
    with pytest.raises(ValueError, match="cell must be a Keras cell, such as GRUCell, or a list"):
        layers.RecurrentDecoder(inputs)


@pytest.mark.parametrize("inputs", [None, "additive", [layers.AdditiveAttention(3), 4]], ids=str)
def test_non_attention_is_rejected(inputs: Any) -> None:
    with pytest.raises(ValueError, match="attention must be an Attention, or a list of them"):
        layers.AttentionCell(cell(4), inputs)
