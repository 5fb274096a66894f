"""Functional models with nested outputs are exported by Keras, with flat outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import attention_zoo as az
from attention_zoo.export import flatten_outputs

WORDS = np.array([[1, 2, 3, 0], [4, 5, 0, 0]], "int32")


def encode(x: Any) -> Any:
    return az.layers.RecurrentEncoder("lstm", 8, bidirectional=True)(x)


def encode_to_dict(x: Any) -> Any:
    memory, states = encode(x)
    return {"memory": memory, "states": states}


def attend(x: Any) -> Any:
    return az.layers.CoverageAttention(units=4)(x, x, return_state=True)


def decode(x: Any) -> Any:
    cell = az.layers.AttentionCell(keras.layers.LSTMCell(8), az.layers.AdditiveAttention(4))
    return az.layers.RecurrentDecoder(cell, return_state=True)(x, x)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (encode, ["output_0", "output_1_0", "output_1_1"]),
        (encode_to_dict, ["memory", "states_0", "states_1"]),
        pytest.param(attend, None, marks=pytest.mark.full),
        pytest.param(decode, None, marks=pytest.mark.full),
    ],
)
def test_outputs_are_flat_and_named_by_path(
    function: Callable[[Any], Any], names: list[str] | None
) -> None:
    words = keras.Input((None,), dtype="int32")
    model = keras.Model(words, function(keras.layers.Embedding(9, 8, mask_zero=True)(words)))
    flat = flatten_outputs(model)
    outputs = flat.predict_on_batch(WORDS)
    assert names is None or sorted(outputs) == names
    expected = keras.tree.flatten(model.predict_on_batch(WORDS))
    for got, want in zip(outputs.values(), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.full
@pytest.mark.parametrize("function", [encode, encode_to_dict, attend, decode])
def test_exports(function: Callable[[Any], Any], tmp_path: Path) -> None:
    words = keras.Input((None,), dtype="int32")
    model = keras.Model(words, function(keras.layers.Embedding(9, 8, mask_zero=True)(words)))
    flat = flatten_outputs(model)
    flat.export(tmp_path / "served", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "served")
    served = loaded.serve(WORDS)
    for name, want in flat.predict_on_batch(WORDS).items():
        np.testing.assert_allclose(served[name], want, atol=1e-6)


def test_other_models_are_rejected() -> None:
    with pytest.raises(ValueError, match="model must be a functional"):
        flatten_outputs(az.models.GPT(9, 8, 16, 2, 1))


def test_equal_names_are_rejected() -> None:
    x = keras.Input((3,))
    model = keras.Model(x, {"a": (x + 1, x + 2), "a_0": x + 3})
    with pytest.raises(ValueError, match=r"^two outputs would be named 'a_0'; rename a key"):
        flatten_outputs(model)
