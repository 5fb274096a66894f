from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import linear_recurrence, scan, shift
from attention_zoo.ops.recurrence import update_rows
from tests.layers.running import (
    MODES,
    WIDE,
    array,
    check_gradients,
    close,
    compiled,
    differentiable,
    needs_dynamic_shapes,
    with_dynamic_shapes,
)

DECAY = np.array([0.5, -0.25], "float32")


def decaying_sum(inputs: Any, start: Any, reverse: bool = False) -> Any:
    """`s_t = s_{t-1} * decay + x_t`, and both `s_t` and `s_t * x_t` of every step."""

    def step(state: dict[str, Any], step_inputs: tuple[Any, ...]) -> tuple[dict[str, Any], Any]:
        total = state["total"] * DECAY + step_inputs[0]
        return {"total": total, "count": state["count"] + 1}, (
            total,
            {"product": total * step_inputs[0]},
        )

    state = {"total": start, "count": ops.zeros((), "int32")}
    return scan(step, state, (inputs,), like=(start, {"product": start}), reverse=reverse)


def reference_decaying_sum(inputs: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    totals, total = [], start
    for x in inputs:
        total = total * DECAY + x
        totals.append(total)
    return np.array(totals).reshape(inputs.shape), total


@pytest.mark.parametrize("length", [0, 1, 5])
@pytest.mark.parametrize("mode", MODES)
def test_scan_equals_a_loop(mode: str, length: int) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(length, 3, 2)).astype("float32")
    start = rng.normal(size=(3, 2)).astype("float32")
    state, (totals, products) = compiled(decaying_sum, mode)(
        ops.convert_to_tensor(inputs), ops.convert_to_tensor(start)
    )
    expected, last = reference_decaying_sum(inputs, start)
    close(totals, expected, 1e-6)
    close(products["product"], expected * inputs, 1e-6)
    close(state["total"], last, 1e-6)
    assert int(array(state["count"])) == length


@pytest.mark.parametrize("length", [0, 1, 5])
@pytest.mark.parametrize("mode", MODES)
def test_reverse_scan_equals_a_scan_of_flipped_inputs(mode: str, length: int) -> None:
    inputs = np.random.default_rng(0).normal(size=(length, 3, 2)).astype("float32")
    start = ops.ones((3, 2))
    state, (totals, products) = compiled(lambda x: decaying_sum(x, start, reverse=True), mode)(
        ops.convert_to_tensor(inputs)
    )
    want, last = reference_decaying_sum(inputs[::-1], np.ones((3, 2), "float32"))
    close(totals, want[::-1], 1e-6)
    close(products["product"], want[::-1] * inputs, 1e-6)
    close(state["total"], last, 1e-6)


@needs_dynamic_shapes
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_dynamic_length(reverse: bool) -> None:
    def call(inputs: Any) -> Any:
        return decaying_sum(inputs, ops.ones((3, 2)), reverse)[1][0]

    run = with_dynamic_shapes(call, (None, 3, 2))
    order = slice(None, None, -1 if reverse else 1)
    for length in (0, 1, 5):
        inputs = np.random.default_rng(0).normal(size=(length, 3, 2)).astype("float32")
        want, _ = reference_decaying_sum(inputs[order], np.ones((3, 2), "float32"))
        close(run(inputs), want[order], 1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_scan_has_gradients(mode: str, reverse: bool) -> None:
    """The gradient by an input is the decay to the power of the remaining steps."""
    inputs, start = np.ones((3, 1, 2), "float32"), np.ones((1, 2), "float32")

    def call(inputs: Any, start: Any) -> Any:
        return decaying_sum(inputs, start, reverse)[0]["total"]

    run = differentiable(keras.layers.Identity(), call, mode)
    _, (by_inputs, by_start), _ = run(inputs, start)
    probe = np.cos([1.0, 2.0])
    for t in range(3):
        remaining = t if reverse else 2 - t
        np.testing.assert_allclose(by_inputs[t, 0], probe * DECAY**remaining, rtol=1e-5)
    np.testing.assert_allclose(by_start[0], probe * DECAY**3, rtol=1e-5)


def reference_recurrence(decay: np.ndarray, inflow: np.ndarray) -> np.ndarray:
    """Compute the recurrence entry by entry in float64."""
    decay, inflow = decay.astype("float64"), inflow.astype("float64")
    total, results = np.zeros(inflow.shape[:-1]), np.zeros(inflow.shape)
    for j in range(inflow.shape[-1]):
        total = decay[..., j] * total + inflow[..., j]
        results[..., j] = total
    return results


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize(
    "shape", [(3, 1), (2, 2), (3,), (2, 4, 7), (2, 8), (1, 100), (0, 5), (2, 0)]
)
def test_linear_recurrence_equals_reference(
    shape: tuple[int, ...], parallel: bool, mode: str
) -> None:
    rng = np.random.default_rng(0)
    decay, inflow = rng.random(shape), rng.random(shape)
    run = compiled(lambda a, b: linear_recurrence(a, b, parallel), mode)
    got = run(*(ops.convert_to_tensor(x.astype("float32")) for x in (decay, inflow)))
    close(got, reference_recurrence(decay, inflow), 1e-6)


def test_linear_recurrence_equals_hand_computed_values() -> None:
    """The first decay is ignored."""
    got = linear_recurrence(ops.array([9.0, 0.5, 0.0, 2.0]), ops.array([1.0, 1.0, 3.0, 0.0]))
    assert array(got).tolist() == [1, 1.5, 3, 6]


@pytest.mark.parametrize("parallel", [True, False])
def test_linear_recurrence_has_gradients(parallel: bool) -> None:
    rng = np.random.default_rng(0)
    tensors = [rng.random((2, 7)).astype(WIDE) for _ in range(2)]
    layer = keras.layers.Identity()
    run = differentiable(layer, lambda a, b: linear_recurrence(a, b, parallel))
    check_gradients(layer, run, tensors)


def test_long_linear_recurrence_is_finite() -> None:
    """Decays in [0, 1], whose products underflow."""
    rng = np.random.default_rng(0)
    decay = np.concatenate(
        [rng.random((1, 4000)), np.full((1, 4000), 0.5), rng.integers(0, 2, (1, 4000))]
    ).astype("float32")
    inflow = (rng.random((3, 4000)) < 0.01).astype("float32")
    run = differentiable(keras.layers.Identity(), linear_recurrence)
    got, gradients, _ = run(decay, inflow)
    np.testing.assert_allclose(got, reference_recurrence(decay, inflow), rtol=2e-6, atol=1e-30)
    assert all(np.isfinite(x).all() for x in gradients)
    impulse = np.zeros((1, 4000), "float32")
    impulse[0, 100] = 1
    got = linear_recurrence(ops.full((1, 4000), 0.5), ops.convert_to_tensor(impulse))
    assert array(got)[0, 100] == 1, "later inputs must not be lost"
    assert array(got)[0, 110] == 2.0**-10


@needs_dynamic_shapes
def test_linear_recurrence_of_dynamic_length() -> None:
    import tensorflow as tf

    def call(decay: Any, inflow: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([decay, inflow])
            result = linear_recurrence(decay, inflow)
        return result, tape.gradient(result, [decay, inflow])

    run = with_dynamic_shapes(call, (None, None), (None, None))
    rng = np.random.default_rng(0)
    for shape in ((2, 5), (1, 1), (0, 4), (2, 0)):
        decay, inflow = (rng.random(shape).astype("float32") for _ in range(2))
        result, gradients = run(decay, inflow)
        close(result, reference_recurrence(decay, inflow), 1e-6)
        assert [tuple(x.shape) for x in gradients] == [shape, shape]


@pytest.mark.parametrize("mode", MODES)
def test_update_rows_updates_rows_repeatedly(mode: str) -> None:
    """Steps 0 to 5 add their number to row `t % 2` of one table and to row 2 of another."""

    def run(first: Any, second: Any) -> Any:
        def step(t: Any, step_inputs: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
            number = ops.cast(t, "float32")
            return t + 1, (step_inputs[0] + number, step_inputs[1] + number)

        start = ops.zeros((), "int32")
        return update_rows(lambda t: t < 6, lambda t: (t % 2, 2), step, start, (first, second))

    first, second = np.zeros((3, 2), "float32"), np.ones((4,), "float32")
    got = compiled(run, mode)(ops.convert_to_tensor(first), ops.convert_to_tensor(second))
    assert array(got[0]).tolist() == [[6, 6], [9, 9], [0, 0]]
    assert array(got[1]).tolist() == [1, 1, 16, 1]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("offset", [1, 2, 5])
def test_shift_moves_entries_and_fills_with_zeros(offset: int, axis: int) -> None:
    x = np.arange(1.0, 25).reshape(2, 3, 4).astype("float32")
    expected = np.roll(x, offset, axis=axis)
    index = [slice(None)] * 3
    index[axis] = slice(0, offset)
    expected[tuple(index)] = 0
    if offset >= x.shape[axis]:
        expected = np.zeros_like(x)
    np.testing.assert_array_equal(array(shift(x, offset, axis)), expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_shift_of_an_empty_axis(axis: int) -> None:
    shape = (0, 3) if axis == 0 else (3, 0)
    assert shift(np.zeros(shape, "float32"), 1, axis).shape == shape
