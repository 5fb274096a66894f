# ruff: noqa: RUF012
from __future__ import annotations

import numpy as np

from attention_zoo.layers import AdditiveAttention
from tests.layers.attention_case import Weights
from tests.layers.conformance import AttentionConformance, NumericLaws


def hidden(weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
    return (query @ weights["query_kernel"])[:, :, None] + (key @ weights["key_kernel"])[:, None]


class TestAdditiveAttention(AttentionConformance):
    covers = AdditiveAttention
    options = {"units": 8}
    changed = {"units": 9, "normalize": True, "alignment": "hard", "dropout": 0.3, "seed": 5}

    def scores(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        return np.tanh(hidden(weights, query, key)) @ weights["v"]


class TestNormalizedAdditiveAttention(NumericLaws):
    covers = AdditiveAttention
    options = {"units": 8, "normalize": True}

    def scores(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        v = weights["gain"] * weights["v"] / np.linalg.norm(weights["v"])
        return np.tanh(hidden(weights, query, key) + weights["bias"]) @ v


def test_units_default_to_the_width_of_the_query() -> None:
    layer = AdditiveAttention()
    layer(np.ones((1, 2, 3), "float32"), np.ones((1, 2, 4), "float32"))
    assert [tuple(v.shape) for v in layer.weights] == [(3, 3), (4, 3), (3,)]
