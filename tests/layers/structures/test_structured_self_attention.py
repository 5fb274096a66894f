from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.layers import StructuredSelfAttention
from attention_zoo.losses import PENALTIES, mean_penalty
from tests.layers.attention_case import numbers, softmax
from tests.layers.running import WIDE, array, check_gradients, differentiable, randomise
from tests.layers.structure_conformance import Arrays, StructureConformance


class TestStructuredSelfAttention(StructureConformance):
    covers = StructuredSelfAttention
    options = {"units": 8, "hops": 3}
    changed = {"units": 9, "hops": 2, "penalty": 0.3}

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return ((batch, *lengths, 6),)

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        """In the paper's notation: W_s1 `(d_a, D)`, W_s2 `(r, d_a)`, H `(S, D)`."""
        ws1, ws2 = numbers(layer)["key_kernel"].T, numbers(layer)["queries"]
        (inputs,), (mask,) = tensors, masks
        attention_weights = np.zeros((len(inputs), 3, inputs.shape[1]))
        for row, states in enumerate(inputs):
            attention_weights[row] = softmax(ws2 @ np.tanh(ws1 @ states.T), mask[row])
        return np.einsum("brs,bsd->brd", attention_weights, inputs), attention_weights


def penalty(weights: np.ndarray, mask: np.ndarray) -> float:
    """Mean of ||A A^T - I||_F^2 over rows that are not fully masked."""
    each = [
        np.linalg.norm(a @ a.T - np.eye(len(a))) ** 2
        for a, row in zip(weights, mask, strict=True)
        if row.any()
    ]
    return float(np.mean(each)) if each else 0.0


INPUTS = np.random.default_rng(0).normal(size=(3, 5, 6)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [1, 0, 1, 0, 0]], "bool")


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_penalty_is_the_mean_over_unmasked_rows(rate: float) -> None:
    layer = StructuredSelfAttention(8, 3, penalty=rate)
    layer(INPUTS)
    randomise(layer)
    _, attention_weights = layer(INPUTS, mask=MASK, return_attention_scores=True)
    (loss,) = layer.losses
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    assert float(array(loss)) == pytest.approx(
        rate * penalty(array(attention_weights), MASK), rel=1e-5
    )


def test_fully_masked_rows_do_not_change_the_penalty() -> None:
    layer = StructuredSelfAttention(8, 3)
    layer(INPUTS[:1])
    expected = float(array(layer.losses[0]))
    layer(INPUTS, mask=np.repeat([[True], [False], [False]], 5, axis=1))
    assert float(array(layer.losses[0])) == pytest.approx(expected, rel=1e-6)
    layer(INPUTS, mask=np.zeros((3, 5), "bool"))
    assert float(array(layer.losses[0])) == 0
    layer(INPUTS[:0])
    assert float(array(layer.losses[0])) == 0


def test_zero_penalty_adds_no_loss() -> None:
    layer = StructuredSelfAttention(8, 3, penalty=0)
    layer(INPUTS)
    assert layer.losses == []


def test_penalty_by_hand() -> None:
    """Two heads on the same of two positions: A A^T is all ones, two entries off by one."""
    layer = StructuredSelfAttention(1, 2)
    inputs = np.array([[[20.0], [-20.0]]], "float32")
    layer(inputs)
    layer.set_weights([np.ones((1, 1)), np.full((2, 1), 50.0)])
    out, attention_weights = layer(inputs, return_attention_scores=True)
    assert array(attention_weights).tolist() == [[[1, 0], [1, 0]]]
    assert array(out).tolist() == [[[20], [20]]]
    assert float(array(layer.losses[0])) == 2


def test_gradient_of_the_penalty() -> None:
    layer = StructuredSelfAttention(4, 3, penalty=0.7, dtype=WIDE)
    inputs = INPUTS.astype(WIDE)
    layer(inputs)
    randomise(layer)

    def loss(x: Any) -> Any:
        """Returns the penalty of the layer, which the tests above check."""
        _, attention_weights = layer(x, mask=MASK, return_attention_scores=True)
        return 0.7 * mean_penalty(PENALTIES.get("diversity"), attention_weights)

    check_gradients(layer, differentiable(layer, loss), [inputs])


def test_penalty_increases_differences_of_attention() -> None:
    """Trained on the penalty only, four heads attend to different ones of six positions."""
    inputs = keras.Input((6, 8))
    layer = StructuredSelfAttention(16, 4)
    model = keras.Model(inputs, layer(inputs, return_attention_scores=True)[1])
    model.compile(keras.optimizers.Adam(0.05), loss=lambda y, p: keras.ops.sum(p) * 0)
    data = np.tile(np.random.default_rng(0).normal(size=(1, 6, 8)), (960, 1, 1)).astype("float32")
    zeros = np.zeros((960, 4, 6))
    first = model.test_on_batch(data[:8], zeros[:8])
    model.fit(data, zeros, batch_size=8, shuffle=False, verbose=0)
    assert model.test_on_batch(data[:8], zeros[:8]) < 0.05 < 1 < first
    assert len(set(array(model(data[:1]))[0].argmax(-1))) == 4
