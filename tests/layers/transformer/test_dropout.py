"""Dropout: dropped and kept values, and equality with Keras's dropout."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from attention_zoo.layers.transformer.dropout import Dropout
from tests.layers.running import JAX, MODES, WIDE, array, compiled

X = np.random.default_rng(0).normal(size=(30, 4, 50)).astype("float32")


@pytest.mark.every_backend
@pytest.mark.parametrize("mode", MODES)
def test_dropout_scales_kept_values(mode: str) -> None:
    layer = Dropout(0.25, seed=3)
    run = compiled(lambda x: layer(x, training=True), mode)
    first, second = array(run(X)), array(run(X))
    for y in (first, second):
        left = y != 0
        assert left.mean() == pytest.approx(0.75, abs=0.03)
        np.testing.assert_allclose(y[left], X[left] / 0.75, rtol=1e-6)
    assert JAX or (first != second).any()  # JAX compiles the seed as a constant
    np.testing.assert_array_equal(array(Dropout(0.25, seed=3)(X, training=True)), first)


def test_sampling_is_inactive_outside_training() -> None:
    for layer, training in ((Dropout(0.5), False), (Dropout(0.5), None), (Dropout(0.0), True)):
        np.testing.assert_array_equal(array(layer(X, training=training)), X)
    assert not array(Dropout(1.0)(X, training=True)).any()


def test_noise_is_shared_along_broadcast_axes() -> None:
    y = array(Dropout(0.5, noise_shape=(None, 1, 1), seed=1)(X, training=True))
    dropped = (y == 0).all(axis=(1, 2))
    assert 3 < dropped.sum() < 27
    assert (y[~dropped] != 0).all()


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16", WIDE])
def test_dtypes_and_masks_are_passed_on(dtype: str) -> None:
    layer = Dropout(0.5, dtype=dtype)
    y = layer(X, training=True)
    assert keras.backend.standardize_dtype(y.dtype) == layer.compute_dtype
    assert layer.supports_masking
    for shape in ((0, 3), (3, 0), (), (1,), (2, 1, 3, 1, 2)):
        assert layer(np.zeros(shape, "float32"), training=True).shape == shape
