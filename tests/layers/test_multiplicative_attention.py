# ruff: noqa: RUF012
from __future__ import annotations

import numpy as np

from attention_zoo.layers import Attention, MultiplicativeAttention
from tests.layers.wrapper_conformance import WrapperConformance


class TestMultiplicativeAttention(WrapperConformance):
    covers = MultiplicativeAttention
    options = {"scale": True}
    changed = {"scale": False, "alignment": "hard", "dropout": 0.3, "seed": 5}

    def equivalent(self) -> Attention:
        return Attention("general", "softmax")


def test_without_scale_there_is_one_weight() -> None:
    layer = MultiplicativeAttention()
    layer(np.ones((1, 2, 3), "float32"), np.ones((1, 2, 4), "float32"))
    assert [(v.name, tuple(v.shape)) for v in layer.weights] == [("key_kernel", (4, 3))]
