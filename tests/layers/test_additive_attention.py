# ruff: noqa: RUF012
from __future__ import annotations

import numpy as np

from attention_zoo.layers import AdditiveAttention, AdditiveScore, Attention
from tests.layers.wrapper_conformance import WrapperConformance


class TestAdditiveAttention(WrapperConformance):
    covers = AdditiveAttention
    options = {"units": 8}
    changed = {"units": 9, "normalize": True, "alignment": "hard", "dropout": 0.3, "seed": 5}

    def equivalent(self) -> Attention:
        return Attention(AdditiveScore(), "softmax")


def test_units_default_to_the_width_of_the_query() -> None:
    layer = AdditiveAttention()
    layer(np.ones((1, 2, 3), "float32"), np.ones((1, 2, 4), "float32"))
    assert [tuple(v.shape) for v in layer.weights] == [(3, 3), (4, 3), (3,)]
