"""int8 kernels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.layers import AdditiveAttention, MultiHeadAttention, RecurrentEncoder
from attention_zoo.layers.quantization import get_float_embeddings, get_float_kernel
from tests.layers.running import MODES, array, close, compiled, same
from tests.layers.test_kernels import CASES, PAIR, X, Y, make_model
from tests.tiers import mark_full

QUANTIZED = {
    name: CASES[name]
    for name in ("additive", "self", "maxout", "visual", "feature_map", "encoder_layer")
}
QUANTIZED["heads"] = (lambda **k: MultiHeadAttention(2, 4, **k), PAIR)


def quantize(target: Any, mode: str = "int8") -> list[str]:
    """Quantize a layer or model; return the warnings of this library."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        target.quantize(mode)
    return [str(x.message) for x in caught if "quantize(" in str(x.message)]


@pytest.mark.parametrize("whole_model", [True, False])
@pytest.mark.parametrize("name", [mark_full(x) if x == "encoder_layer" else x for x in QUANTIZED])
def test_int8_is_close_and_saved(name: str, whole_model: bool, tmp_path: Path) -> None:
    layer, model, tensors = make_model(QUANTIZED[name])
    expected = model(tensors)
    assert quantize(model if whole_model else layer) == []
    got = model(tensors)
    close(got, expected, 0.05)
    assert np.abs(array(keras.tree.flatten(got)[0]) - keras.tree.flatten(expected)[0]).max() > 0
    floats = [x.path for x in layer.weights if x.dtype != "int8" and len(x.shape) > 1]
    assert all(path.endswith("bias") for path in floats)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    same(loaded(tensors), got)
    assert [x.dtype for x in loaded.weights] == [x.dtype for x in model.weights]


@pytest.mark.parametrize("mode", MODES[1:])
def test_int8_runs_compiled(mode: str) -> None:
    layer = MultiHeadAttention(2, 4)
    layer(X, Y)
    quantize(layer)
    close(compiled(layer, mode)(X, Y), layer(X, Y), 1e-6)


def test_one_warning_names_what_stays_float() -> None:
    layer = RecurrentEncoder("gru", 4, num_layers=2)
    layer(X)
    (message,) = quantize(layer)
    assert "leaves weights of RecurrentEncoder" in message
    assert message.count("recurrent_kernel") == 2
    positions = MultiHeadAttention(2, 4, positions="shaw")
    inputs = keras.Input((None, 6))
    (message,) = quantize(keras.Model(inputs, positions(inputs, inputs)))
    assert "ShawPositions" in message
    assert "key_table, " in message
    layer = MultiHeadAttention(2, 4)
    layer(X, Y)
    (message,) = quantize(layer, "float8")
    assert "query_projection" in message
    assert {x.dtype for x in layer.weights} == {"float32"}
    assert quantize(layer) == []
    expected = layer(X, Y)
    assert quantize(layer) == []
    same(layer(X, Y), expected)


def test_lora_is_merged() -> None:
    layer = AdditiveAttention(5)
    layer(X, Y)
    layer.enable_lora(2, b_initializer="ones")
    expected = layer(X, Y)
    quantize(layer)
    close(layer(X, Y), expected, 0.05)
    assert not [x for x in layer.weights if "lora" in x.name]
    with pytest.raises(ValueError, match="does not support constrained or int8 kernels"):
        layer.score.enable_lora(2)


def test_matrices_of_keras_layers_are_read_in_floating_point() -> None:
    """Models read the kernel of their output layer, or the embeddings in its place."""
    dense, embedding = keras.layers.Dense(5), keras.layers.Embedding(5, 3)
    dense.build((None, 3))
    embedding.build((None,))
    for layer, read in ((dense, get_float_kernel), (embedding, get_float_embeddings)):
        expected = array(read(layer))
        layer.quantize("int8")
        close(array(read(layer)), expected, 1e-2)


@pytest.mark.full
def test_other_quantized_matrices_are_rejected() -> None:
    other = keras.layers.Dense(8)
    other.build((None, 8))
    other.quantize("int4")
    with pytest.raises(ValueError, match=r'is quantized with \'int4\', .* quantize\("int8"\)'):
        get_float_kernel(other)
