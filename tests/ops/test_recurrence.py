from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import scan
from tests.layers.running import MODES, array, close, compiled, differentiable

DECAY = np.array([0.5, -0.25], "float32")


def decaying_sum(inputs: Any, start: Any) -> Any:
    """`s_t = s_{t-1} * decay + x_t`, and both `s_t` and `s_t * x_t` of every step."""

    def step(state: dict[str, Any], now: tuple[Any, ...]) -> tuple[dict[str, Any], Any]:
        total = state["total"] * DECAY + now[0]
        return {"total": total, "count": state["count"] + 1}, (total, {"product": total * now[0]})

    state = {"total": start, "count": ops.zeros((), "int32")}
    return scan(step, state, (inputs,), like=(start, {"product": start}))


def by_hand(inputs: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    totals, total = [], start
    for x in inputs:
        total = total * DECAY + x
        totals.append(total)
    return np.array(totals).reshape(inputs.shape), total


@pytest.mark.parametrize("length", [0, 1, 5])
@pytest.mark.parametrize("mode", MODES)
def test_is_a_loop(mode: str, length: int) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(length, 3, 2)).astype("float32")
    start = rng.normal(size=(3, 2)).astype("float32")
    state, (totals, products) = compiled(decaying_sum, mode)(
        ops.convert_to_tensor(inputs), ops.convert_to_tensor(start)
    )
    want, last = by_hand(inputs, start)
    close(totals, want, 1e-6)
    close(products["product"], want * inputs, 1e-6)
    close(state["total"], last, 1e-6)
    assert int(array(state["count"])) == length


@pytest.mark.parametrize("mode", MODES)
def test_has_gradients(mode: str) -> None:
    """Of the last total by every input: the decay to the power of the steps that follow."""
    inputs, start = np.ones((3, 1, 2), "float32"), np.ones((1, 2), "float32")
    run = differentiable(keras.layers.Identity(), lambda x, s: decaying_sum(x, s)[0]["total"], mode)
    _, (by_inputs, by_start), _ = run(inputs, start)
    probe = np.cos([1.0, 2.0])
    for t in range(3):
        np.testing.assert_allclose(by_inputs[t, 0], probe * DECAY ** (2 - t), rtol=1e-5)
    np.testing.assert_allclose(by_start[0], probe * DECAY**3, rtol=1e-5)
