from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.layers import (
    AdditiveAttention,
    AdditiveScore,
    Attention,
    DotProductAttention,
    MultiplicativeAttention,
)
from tests.layers.running import array, same
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


class TestDotProductAttention(WrapperConformance):
    covers = DotProductAttention
    changed = {"scale": True, "alignment": "hard", "dropout": 0.3, "seed": 5}
    widths = (6, 6, 7)

    def equivalent(self) -> Attention:
        return Attention("dot", "softmax")


def test_scaled_dot_product() -> None:
    tensors = np.random.default_rng(0).normal(size=(2, 2, 3, 16)).astype("float32")
    scaled = DotProductAttention(scale=True)(*tensors, return_attention_scores=True)
    same(scaled, Attention("scaled_dot")(*tensors, return_attention_scores=True))


def test_different_widths_are_rejected() -> None:
    query, value = np.ones((1, 2, 3), "float32"), np.ones((1, 2, 4), "float32")
    with pytest.raises(ValueError, match='got 3 and 4; use score="general"'):
        DotProductAttention()(query, value)


def test_worked_by_hand() -> None:
    """Scores ln 1, ln 2, ln 5: the weights are eighths."""
    query = np.array([[[1.0]]], "float32")
    key = np.log([[[1.0], [2.0], [5.0]]]).astype("float32")
    value = np.array([[[8.0, 0.0], [0.0, 8.0], [16.0, 8.0]]], "float32")
    context, weights = DotProductAttention()(query, value, key, return_attention_scores=True)
    np.testing.assert_allclose(array(weights)[0, 0], [1 / 8, 2 / 8, 5 / 8], rtol=1e-6)
    np.testing.assert_allclose(array(context)[0, 0], [11, 7], rtol=1e-6)
