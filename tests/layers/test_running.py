"""Tests of the test helpers that compare and differentiate."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from tests.layers.running import (
    JAX_EXCEPTIONS,
    MODES,
    all_finite,
    close,
    compiled,
    differentiable,
    same,
)


def test_jax_exceptions_are_few_and_have_reasons() -> None:
    assert len(JAX_EXCEPTIONS) <= 5
    assert all(JAX_EXCEPTIONS.values())


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_inputs_and_weights(mode: str) -> None:
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    layer.build((1, 2))
    run = differentiable(layer, lambda x, keep: ops.where(keep, layer(x), 0.0), mode)
    outputs, (by_input,), (by_weight,) = run(np.array([[2.0, 3.0]], "float32"), np.array([[True]]))
    probe = np.cos(1.0)
    np.testing.assert_allclose(outputs, [[5]])
    np.testing.assert_allclose(by_input, [[probe, probe]], rtol=1e-6)
    np.testing.assert_allclose(by_weight, [[2 * probe], [3 * probe]], rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_compiled_equals_eager(mode: str) -> None:
    assert float(compiled(lambda x: x * 2, mode)(ops.convert_to_tensor(3.0))) == 6


def test_comparison_helpers_detect_differences() -> None:
    close(np.array([1.0, 100.0]), np.array([1.0, 100.00001]), 1e-6)
    for got, expected in (([1.0], [1.1]), ([1.0], [1.0, 1.0]), ([np.nan], [1.0])):
        with pytest.raises(AssertionError):
            close(np.array(got), np.array(expected), 1e-6)
    for got, expected in (([1.0], [1.0 + 1e-15]), ([1.0, 1.0], [1.0]), ([np.nan], [np.nan])):
        with pytest.raises(AssertionError):
            same(np.array(got), np.array(expected))
    with pytest.raises(ValueError, match="longer"):
        same([np.zeros(1)], [np.zeros(1), np.zeros(1)])
    assert all_finite([np.zeros(1)], np.ones(2))
    assert not all_finite([np.zeros(1)], [np.array([0, np.inf])])
