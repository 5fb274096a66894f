"""Calls of Python functions from compiled graphs."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.ops.gradients import gradient
from tests.layers.running import array, compiled


def test_eager_call_receives_read_only_arrays() -> None:
    received: list[Any] = []
    x = ops.convert_to_tensor(np.arange(4, dtype="float32"))
    result = zoo_ops.call_on_host(lambda *arrays: received.append(arrays), [x, x > 1], x)
    assert array(result).tolist() == [0, 1, 2, 3]
    ((values, mask),) = received
    assert (values.tolist(), mask.tolist()) == ([0, 1, 2, 3], [False, False, True, True])
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 1


def test_compiled_function_calls_whenever_it_runs() -> None:
    received: list[float] = []

    def call(x: Any) -> Any:
        return zoo_ops.call_on_host(
            lambda value: received.append(float(value)), [ops.sum(x)], 2 * x
        )

    run = compiled(call, "graph")
    for scale in (1, 2):
        np.testing.assert_array_equal(array(run(scale * np.ones(3, "float32"))), [2 * scale] * 3)
    assert received == [3, 6]


def test_calls_in_a_loop_are_in_order() -> None:
    """Each step depends on the call of the step before."""
    received: list[int] = []

    def call(x: Any) -> Any:
        def step(total: Any, value: Any) -> tuple[Any, Any]:
            total = total + value
            total = zoo_ops.call_on_host(lambda y: received.append(int(y)), [total], total)
            return total, total

        return zoo_ops.scan(step, ops.zeros((), x.dtype), x, like=ops.zeros((), x.dtype))[0]

    assert float(compiled(call, "graph")(np.ones(20, "float32"))) == 20
    assert received == list(range(1, 21))


def test_gradient_passes_by_the_call() -> None:
    def call(x: Any) -> Any:
        return zoo_ops.call_on_host(lambda value: None, [x**3], x**2)

    x = ops.convert_to_tensor(np.array([1.0, 2.0], "float32"))
    assert array(gradient(call, x)).tolist() == [2, 4]


def test_nests_are_returned() -> None:
    x = keras.ops.ones(2)
    nest = zoo_ops.call_on_host(lambda value: None, [x], {"a": x, "b": (x, x)})
    assert keras.tree.map_structure(lambda y: array(y).tolist(), nest) == {
        "a": [1, 1],
        "b": ([1, 1], [1, 1]),
    }
