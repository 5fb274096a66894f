# ruff: noqa: RUF012
from __future__ import annotations

import numpy as np

from attention_zoo.layers import MultiplicativeAttention
from tests.layers.attention_case import Weights
from tests.layers.conformance import AttentionConformance


class TestMultiplicativeAttention(AttentionConformance):
    covers = MultiplicativeAttention
    options = {"scale": True}
    changed = {"scale": False, "alignment": "hard", "dropout": 0.3, "seed": 5}

    def scores(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        keys = key @ weights["key_kernel"]
        return weights["gain"] * (query @ keys.swapaxes(1, 2))


def test_without_scale_there_is_one_weight() -> None:
    layer = MultiplicativeAttention()
    layer(np.ones((1, 2, 3), "float32"), np.ones((1, 2, 4), "float32"))
    assert [(v.name, tuple(v.shape)) for v in layer.weights] == [("key_kernel", (4, 3))]
