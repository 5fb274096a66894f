"""Numbers that no layer can be made with: each constructor says which of its own is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import layers, losses

NUMBERS = (math.nan, "1", True, None)
COUNTS = (0, -1, 2.0, *NUMBERS)
LOWEST = (-0.5, math.inf, *NUMBERS)
"""Of what must be 0 at least and finite."""

cell = keras.layers.GRUCell


def attending(**options: Any) -> layers.AttentionCell:
    return layers.AttentionCell(cell(4), layers.AdditiveAttention(3), **options)


CASES: list[tuple[Callable[..., Any], str, tuple[Any, ...]]] = [
    *((score, "units", COUNTS[:-1]) for score in (layers.AdditiveScore, layers.ConcatScore)),
    *((score, "units", COUNTS[:-1]) for score in (layers.CoverageScore, layers.CoverageAttention)),
    (layers.AdditiveAttention, "units", COUNTS[:-1]),
    (layers.LocalPredictiveAlignment, "units", COUNTS[:-1]),
    (layers.LocationSensitiveScore, "filters", COUNTS),
    (layers.LocationSensitiveAttention, "kernel_size", COUNTS),
    (layers.LocationScore, "max_length", COUNTS),
    (layers.CosineScore, "temperature", (0, *LOWEST)),
    (layers.EntmaxAlignment, "alpha", (1, 2.5, math.inf, *NUMBERS)),
    (layers.GumbelAlignment, "temperature", (0, *LOWEST)),
    (layers.GumbelAlignment, "seed", (-1, 1.5, "1")),
    (layers.MonotonicAttention, "seed", (-1, 1.5, "1")),
    (layers.ReinforceAlignment, "expected_rate", (1, *LOWEST)),
    (layers.SigmoidAlignment, "bias_init", (math.inf, *NUMBERS)),
    (layers.TopKAlignment, "k", COUNTS),
    (layers.LocalMonotonicAlignment, "window", COUNTS[1:]),
    (layers.MonotonicAlignment, "score_bias_init", (math.inf, *NUMBERS)),
    (layers.MonotonicAlignment, "sigmoid_noise", LOWEST),
    (layers.MonotonicChunkwiseAttention, "sigmoid_noise", LOWEST),
    (layers.MonotonicChunkwiseAttention, "chunk_size", COUNTS),
    (layers.MixtureWindowAttention, "num_components", COUNTS),
    (layers.Attention, "dropout", (1, *LOWEST)),
    (layers.LearnedPositions, "max_length", COUNTS),
    (layers.SinusoidalPositions, "max_wavelength", (1, *LOWEST)),
    (layers.RotaryPositions, "max_wavelength", (1, *LOWEST)),
    (layers.ShawPositions, "max_distance", COUNTS),
    (layers.T5Positions, "num_buckets", (1, *COUNTS)),
    (layers.T5Positions, "max_distance", (8, *COUNTS)),
    (attending, "attention_layer_size", COUNTS[:-1]),
    (layers.ConstantSampling, "probability", (2, *LOWEST)),
    (layers.InverseSigmoidSampling, "k", (0, *LOWEST)),
    (losses.Reinforce, "baseline_decay", (1, *LOWEST)),
    (losses.Reinforce, "entropy_bonus", LOWEST),
    (losses.SequenceCrossEntropy, "label_smoothing", (1, *LOWEST)),
]


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        pytest.param(make, name, value, id=f"{make.__name__}-{name}-{value}")
        for make, name, values in CASES
        for value in values
    ],
)
def test_impossible_values_are_refused(make: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        make(**{name: value})


def test_numbers_of_numpy_are_numbers() -> None:
    config = layers.AdditiveScore(units=np.int64(3)).get_config()
    assert type(config["units"]) is int
    assert layers.CosineScore(temperature=np.float32(0.5)).temperature == 0.5


@pytest.mark.parametrize("given", [None, "gru", [], ["gru"], keras.layers.GRU(4)], ids=str)
def test_what_is_no_cell_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="cell must be a Keras cell, as GRUCell, or a list of the"):
        layers.RecurrentDecoder(given)


@pytest.mark.parametrize("given", [None, "additive", [layers.AdditiveAttention(3), 4]], ids=str)
def test_what_is_no_attention_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="attention must be an Attention, or a list of them"):
        layers.AttentionCell(cell(4), given)
