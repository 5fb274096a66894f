from __future__ import annotations

import keras
import numpy as np
import pytest

from attention_zoo.ops import pad_empty_batch
from tests.layers.running import any_batch, array


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_convolution_of_any_batch(batch: int) -> None:
    """The convolution alone returns the shape of its input if the batch is empty."""
    x = np.ones((batch, 5, 2), "float32")
    convolution = keras.layers.Conv1D(4, 3)
    convolution.build((None, None, 2))
    maps = any_batch(lambda x: convolution(pad_empty_batch(x))[: keras.ops.shape(x)[0]])(x)
    assert array(maps).shape == (batch, 3, 4)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_other_batches_are_unchanged(batch: int) -> None:
    x = np.full((batch, 2), 7, "int32")
    padded = array(pad_empty_batch(keras.ops.convert_to_tensor(x)))
    assert padded.dtype == "int32"
    np.testing.assert_array_equal(padded, x if batch else np.zeros((1, 2)))


def test_symbolic_call() -> None:
    """The batch size is unknown."""
    x = keras.Input((5, 2))
    maps = keras.layers.Conv1D(4, 3)(keras.layers.Lambda(pad_empty_batch)(x))
    assert maps.shape == (None, 3, 4)
