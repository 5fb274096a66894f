from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.layers import (
    AdditiveAttention,
    AttentionCell,
    AttentionRegularizer,
    MultiHeadAttention,
    RecurrentDecoder,
)
from attention_zoo.losses import PENALTIES, mean_penalty
from tests.layers.conformance import LayerConformance
from tests.layers.running import JAX, array, close, same

QUERY = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], "bool")
MEMORY = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1]], "bool")


class TestAttentionRegularizer(LayerConformance):
    covers = AttentionRegularizer
    options = {"penalty": "coverage"}
    changed = {"penalty": "diversity", "rate": 0.3}

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng(0)
        return (rng.dirichlet(np.ones(5), size=(batch, 4)).astype("float32"),)


@pytest.mark.parametrize("heads", [False, True])
@pytest.mark.parametrize("name", PENALTIES.names())
def test_weights_are_returned_and_the_penalty_is_added(name: str, heads: bool) -> None:
    (weights,) = TestAttentionRegularizer().tensors()
    weights = np.stack([weights, weights[:, ::-1]], axis=1) if heads else weights
    layer = AttentionRegularizer(name, rate=0.3)
    same(layer(weights, query_mask=QUERY, memory_mask=MEMORY), weights)
    (loss,) = layer.losses
    expected = float(array(mean_penalty(PENALTIES.get(name), weights, QUERY, MEMORY)))
    assert float(array(loss)) == pytest.approx(0.3 * expected, rel=1e-6)


def fit_and_compare(
    penalty: str, rate: float, attach: Any, steps: int = 4
) -> tuple[float, float, np.ndarray]:
    """Train on the penalty only; return it before and after training, and the weights."""
    query, value = keras.Input((steps, 6)), keras.Input((4, 6))
    context, weights = attach(query, value)
    model = keras.Model(
        [query, value], [context, AttentionRegularizer(penalty, rate=rate)(weights)]
    )
    nothing = [lambda y, p: 0.0 * keras.ops.sum(p)] * 2
    model.compile(keras.optimizers.Adam(0.03), nothing)
    rng = np.random.default_rng(0)
    data = [np.tile(rng.normal(size=(1, n, 6)), (960, 1, 1)).astype("float32") for n in (steps, 4)]
    zeros = [np.zeros((960, *x.shape[1:])) for x in (context, weights)]
    before = model.test_on_batch([x[:8] for x in data], [x[:8] for x in zeros])[0]
    model.fit(data, zeros, batch_size=8, shuffle=False, verbose=0)
    after = model.test_on_batch([x[:8] for x in data], [x[:8] for x in zeros])[0]
    return float(before), float(after), array(model([x[:1] for x in data])[1])[0]


def attention(query: Any, value: Any) -> Any:
    return AdditiveAttention(16)(query, value, return_attention_scores=True)


def heads(query: Any, value: Any) -> Any:
    layer = MultiHeadAttention(num_heads=2, key_dim=4)
    return layer(query, value, return_attention_scores=True)


def decoder(query: Any, value: Any) -> Any:
    cell = AttentionCell(keras.layers.GRUCell(16), AdditiveAttention(16))
    outputs, (weights,) = RecurrentDecoder(cell, alignment_history=True)(query, value)
    return outputs, weights


# With more than two steps, coverage has local minima: two steps attend to the same position.
TRAINED = [
    ("coverage", decoder, 2),
    ("doubly_stochastic", attention, 4),
    ("diversity", heads, 4),
    ("entropy", attention, 4),
]


@pytest.mark.full
@pytest.mark.parametrize(("penalty", "attach", "steps"), TRAINED[:1] if JAX else TRAINED)
def test_regularizes_any_attention_in_fit(penalty: str, attach: Any, steps: int) -> None:
    before, after, _ = fit_and_compare(penalty, 1.0, attach, steps)
    assert after < 0.6 * before


@pytest.mark.full
def test_negative_rate_spreads_attention() -> None:
    _, _, sharp = fit_and_compare("entropy", 1.0, attention)
    _, _, broad = fit_and_compare("entropy", -1.0, attention)
    assert sharp.max(-1).min() > 0.9
    close(broad, np.full((4, 4), 0.25), 0.1)


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="weights must be"):
        AttentionRegularizer("coverage")(np.ones((2, 3), "float32"))
    weights = np.ones((3, 4, 5), "float32")
    with pytest.raises(ValueError, match=r"query_mask has shape.*is expected"):
        AttentionRegularizer("coverage")(weights, query_mask=MEMORY)
    with pytest.raises(ValueError, match="memory_mask has dtype float32"):
        AttentionRegularizer("coverage")(weights, memory_mask=MEMORY.astype("float32"))
