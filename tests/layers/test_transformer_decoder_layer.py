# ruff: noqa: RUF012
from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from attention_zoo.layers import AdditiveAttention, TransformerDecoderLayer
from tests.layers.running import array
from tests.layers.structure_laws import Arrays, StructureConformance
from tests.layers.transformer_oracle import around, feed_forward, heads


class TestTransformerDecoderLayer(StructureConformance):
    covers = TransformerDecoderLayer
    options = {"units": 8, "num_heads": 2}
    changed = {
        "units": 9,
        "num_heads": 3,
        "attention": AdditiveAttention(4),
        "activation": "geglu",
        "norm": "rms",
        "norm_first": False,
        "epsilon": 1e-3,
        "dropout": 0.2,
        "stochastic_depth": 0.1,
        "seed": 3,
    }
    names = ("mask", "memory_mask")
    lengths = (4, 5)
    oracle_tolerance = 1e-5

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return ((batch, lengths[0], 6), (batch, lengths[1], 7))

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        (x, memory), (mask, shown) = tensors, masks
        x, memory = (np.where(m[..., None], y, 0) for y, m in ((x, mask), (memory, shown)))
        steps = x.shape[1]
        own = mask[:, :, None] & mask[:, None] & np.tri(steps, dtype="bool")
        other = mask[:, :, None] & shown[:, None]
        weights = []

        def look(attention: Any, at: Any, allowed: np.ndarray) -> Any:
            def work(y: np.ndarray) -> np.ndarray:
                context, looked = heads(attention, y, y if at is None else at, allowed)
                weights.append(looked)
                return context

            return work

        x = around(layer.around_attention, x, look(layer.attention, None, own))
        x = around(layer.around_memory, x, look(layer.memory_attention, memory, other))
        x = around(layer.around_feed_forward, x, lambda y: feed_forward(layer.feed_forward, y))
        return np.where(mask[..., None], x, 0), *weights

    def when_dead(self, name: str, tensors: Arrays, outputs: list[np.ndarray]) -> None:
        """Nothing written is nothing; nothing to read is no look at it."""
        for output in outputs if name == "mask" else outputs[2:]:
            assert not output[1].any()
        if name == "memory_mask":
            assert outputs[0][1].any()


def test_without_the_causal_mask_all_is_seen() -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("float32")
    layer = TransformerDecoderLayer(8, 2)
    _, own, _ = layer(x, x, use_causal_mask=False, return_attention_scores=True)
    assert (array(own) > 0).all()
    _, own, _ = layer(ops.convert_to_tensor(x), x, return_attention_scores=True)
    assert not np.triu(array(own), 1).any()
