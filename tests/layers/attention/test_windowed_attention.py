from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import WindowedAttention
from attention_zoo.layers.attention import steps
from tests.layers.attention.test_blockwise import check
from tests.layers.attention_case import numbers, softmax
from tests.layers.running import (
    array,
    arrays,
    build_random,
    close,
    needs_dynamic_shapes,
    with_dynamic_shapes,
)
from tests.layers.structure_conformance import Arrays, StructureConformance

HEADS, K, D = 2, 4, 6


def in_window_mask(length: int, window: int, leading: int) -> np.ndarray:
    position = np.arange(length)
    in_window = np.abs(position[:, None] - position) <= window
    return in_window | (np.minimum(position[:, None], position) < leading)


class TestWindowedAttention(StructureConformance):
    covers = WindowedAttention
    options = {"num_heads": HEADS, "key_dim": K, "window": 1, "num_global_tokens": 1}
    changed = {
        "num_heads": 4,
        "key_dim": 3,
        "window": 2,
        "num_global_tokens": 2,
        "dropout": 0.3,
        "use_bias": False,
        "num_key_value_heads": 1,
        "positions": "alibi",
        "seed": 5,
    }

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return ((batch, lengths[0], D),)

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        (x,), (mask,), weights = tensors, masks, numbers(layer)
        visible = in_window_mask(x.shape[1], 1, 1) & mask[:, None] & mask[:, :, None]

        def heads(name: str) -> np.ndarray:
            projected = np.einsum("btd,dhk->bhtk", x, weights[f"{name}_projection"])
            return projected + weights[f"{name}_bias"][:, None]

        scores = np.einsum("bhtk,bhsk->bhts", heads("query"), heads("key")) / np.sqrt(K)
        attention_weights = softmax(scores, visible[:, None])
        context = np.einsum("bhts,bhsk->bthk", attention_weights, heads("value"))
        output = np.einsum("bthk,hkd->btd", context, weights["output_projection"])
        output = np.where(mask[..., None], output + weights["output_bias"], 0)
        return output, attention_weights


def test_worked_by_hand() -> None:
    """All scores are 0, so each of five positions gets the mean of its window of 1, 2, 4, 8, 16.

    With a global first position: (1 + 2 + 4 + 8 + 16) / 5, then (1 + 2 + 4) / 3,
    (1 + 2 + 4 + 8) / 4, (1 + 4 + 8 + 16) / 4 and (1 + 8 + 16) / 3.
    """
    x = 2.0 ** np.arange(5, dtype="float32").reshape(1, 5, 1)
    layer = WindowedAttention(1, 1, window=1, num_global_tokens=1, use_bias=False)
    layer(x)
    layer.set_weights([np.full((1, 1, 1), n) for n in (0.0, 1.0, 1.0, 1.0)])
    got = array(layer(x))[0, :, 0]
    np.testing.assert_allclose(got, [31 / 5, 7 / 3, 15 / 4, 29 / 4, 25 / 3], rtol=1e-6)
    got = array(layer(x, use_causal_mask=True))[0, :, 0]
    np.testing.assert_allclose(got, [1, 3 / 2, 7 / 3, 13 / 3, 25 / 3], rtol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_by_blocks(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and gradients equal those of full scores, with padding and positions."""
    x = np.random.default_rng(0).normal(size=(2, 100, D)).astype("float32")
    mask = np.arange(100) < np.array([[100], [61]])
    layer = WindowedAttention(HEADS, K, window=3, num_global_tokens=2, positions="alibi")
    build_random(layer, x)
    check(layer, {"mask": mask, "use_causal_mask": causal}, monkeypatch, x)


@pytest.mark.parametrize(
    ("length", "window", "is_blockwise"), [(511, 64, 0), (512, 64, 1), (512, 256, 0)]
)
def test_blocks_are_used_where_they_save_time(length: int, window: int, is_blockwise: int) -> None:
    layer = WindowedAttention(1, 1, window)
    layer.build((1, length, 1))
    assert steps.use_blockwise(layer.attention, length, length) == bool(is_blockwise)
    assert steps.use_blockwise(layer.attention, None, None)


@pytest.mark.full
@needs_dynamic_shapes
def test_dynamic_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blockwise, so that time grows linearly with the length; dropout is the same."""
    x = np.random.default_rng(0).normal(size=(2, 50, D)).astype("float32")
    layer = WindowedAttention(HEADS, K, window=2, positions="t5", dropout=0.4, seed=1)
    build_random(layer, x)

    def run(x: Any) -> Any:
        return layer(x, training=True), layer(x, training=True, return_attention_scores=True)[0]

    start = ops.convert_to_numpy(layer.attention.seed_generator.state)
    free = with_dynamic_shapes(run, (None, None, D))
    first, second = arrays(free(x))
    assert np.abs(first - second).max() > 1e-2
    layer.attention.seed_generator.state.assign(start)
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 1)
    close(first, run(ops.convert_to_tensor(x))[0], 1e-5)
