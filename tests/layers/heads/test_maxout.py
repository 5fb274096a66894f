from __future__ import annotations

import numpy as np

from attention_zoo.layers import Maxout
from tests.layers.attention_case import numbers
from tests.layers.conformance import LayerConformance
from tests.layers.running import close


class TestMaxout(LayerConformance):
    covers = Maxout
    options = {"units": 4, "pool": 3}
    changed = {"units": 5, "pool": 2}

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        return (np.random.default_rng(0).normal(size=(batch, 2, 6)).astype("float32"),)

    def test_oracle(self) -> None:
        layer, (inputs,) = self.make_random(), self.tensors()
        weights = numbers(layer)
        linear = inputs @ weights["kernel"] + weights["bias"]
        close(layer(inputs), linear.reshape(3, 2, 4, 3).max(-1), 1e-6)
