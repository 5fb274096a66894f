from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.layers import Attention, LocationSensitiveAttention
from tests.layers.attention_case import Array, Result, Weights, softmax
from tests.layers.attention_conformance import (
    FullyMaskedRowConformance,
    PaddingConformance,
    StepConformance,
)
from tests.layers.conformance import NumericConformance
from tests.layers.mask_conformance import MaskConformance
from tests.layers.running import MODES, array, compiled
from tests.layers.stateful_conformance import StatefulCase, StatefulConformance
from tests.layers.wrapper_conformance import WrapperConformance


class LocationSensitiveCase(StatefulCase):
    covers = LocationSensitiveAttention
    options = {"units": 8, "filters": 3, "kernel_size": 3}

    def equivalent(self) -> Attention:
        return Attention("location_sensitive", "softmax")

    def step_oracle(
        self, weights: Weights, query: Array, key: Array, mask: Array, state: Array
    ) -> Result:
        hidden = query @ weights["query_kernel"] + key @ weights["key_kernel"] + weights["bias"]
        neighbours = [  # NumPy's convolution reverses the filter, so it gets a reversed one
            np.convolve(np.pad(state, 1), f[::-1], "valid")
            for f in weights["location_filters"][:, 0].T
        ]
        hidden = hidden + np.stack(neighbours, axis=-1) @ weights["location_kernel"]
        attention_weights = softmax(np.tanh(hidden) @ weights["v"], mask)
        return attention_weights, self.next_state(attention_weights, state)

    def next_state(self, attention_weights: Array, state: Array) -> Array:
        return attention_weights


@pytest.mark.full
class TestMasksOfLocationSensitiveAttention(
    LocationSensitiveCase,
    MaskConformance,
    FullyMaskedRowConformance,
    PaddingConformance,
    StepConformance,
):
    """A score that reads the weights of the step before."""

    options = LocationSensitiveCase.options


class TestLocationSensitiveAttention(
    LocationSensitiveCase, StatefulConformance, WrapperConformance
):
    changed = {
        "units": 9,
        "filters": 4,
        "kernel_size": 5,
        "cumulative": True,
        "alignment": "hard",
        "dropout": 0.3,
        "seed": 5,
    }


class TestCumulativeLocationSensitiveAttention(LocationSensitiveCase, NumericConformance):
    options = {"units": 8, "filters": 3, "kernel_size": 3, "cumulative": True}

    def next_state(self, attention_weights: Array, state: Array) -> Array:
        return state + attention_weights


def make_layer(taps: list[float], **options: Any) -> LocationSensitiveAttention:
    """Return a layer with one hidden unit, `tanh(0.1 k + 3 f)`, and a hard alignment."""
    layer = LocationSensitiveAttention(1, 1, len(taps), alignment="hard", **options)
    layer.build((1, 3, 1), (1, 3, 1))
    weights = [[0]], [[0.1]], np.reshape(taps, (-1, 1, 1)), [[3]], [0], [1]
    layer.score.set_weights([np.array(x) for x in weights])
    return layer


KEY = np.array([[[2], [3], [1], [0]]], "float32")
QUERY = np.zeros((1, 4, 1), "float32")


@pytest.mark.parametrize("mode", MODES)
def test_filter_with_earlier_tap_moves_forward(mode: str) -> None:
    """Each step selects the next position; after the end, the largest key."""
    layer = make_layer([1, 0, 0])
    run = compiled(lambda q, v: layer(q, v), mode)
    assert array(run(QUERY, KEY))[0, :, 0].tolist() == [3, 1, 0, 3]


def test_filter_with_later_tap_moves_backward() -> None:
    assert array(make_layer([0, 0, 1])(QUERY, KEY))[0, :, 0].tolist() == [3, 2, 3, 2]


def test_even_filter_reaches_one_position_further_right() -> None:
    assert array(make_layer([1, 0])(QUERY, KEY))[0, :, 0].tolist() == [3, 3, 3, 3]
    assert array(make_layer([0, 1])(QUERY, KEY))[0, :, 0].tolist() == [3, 2, 3, 2]


def test_accumulated_weights_repel_attention() -> None:
    """The last weights contain nothing of the step before, so its position is selected again."""
    forgetful, cumulative = make_layer([0, -1, 0]), make_layer([0, -1, 0], cumulative=True)
    assert array(forgetful(QUERY, KEY))[0, :, 0].tolist() == [3, 2, 3, 2]
    assert array(cumulative(QUERY, KEY))[0, :, 0].tolist() == [3, 2, 1, 0]


def test_masked_positions_are_zeros_to_the_filter() -> None:
    """Position 1 is masked: no step selects it or moves on from it."""
    mask = np.array([[1, 0, 1, 1]], "bool")
    garbage = np.where(mask[..., None], KEY, np.float32(np.nan))
    attention_weights = make_layer([1, 0, 0])(QUERY, garbage, value_mask=mask)
    assert array(attention_weights)[0, :, 0].tolist() == [2, 2, 2, 2]


def test_defaults_follow_tacotron_2() -> None:
    layer = LocationSensitiveAttention()
    layer(np.ones((1, 2, 3), "float32"), np.ones((1, 2, 4), "float32"))
    shapes = [tuple(v.shape) for v in layer.weights]
    assert shapes == [(3, 3), (4, 3), (31, 1, 32), (32, 3), (3,), (3,)]
