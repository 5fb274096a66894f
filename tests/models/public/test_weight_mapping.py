"""Every tensor maps to a weight and every weight to a tensor, of the correct shape."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from attention_zoo.models.public.weight_mapping import (
    WeightMapping,
    assign_weights,
    map_dense,
    map_kernel,
    map_norm,
    map_table,
    map_vector,
)
from tests.layers.running import array

HERE = Path("somewhere")


def variable(*shape: int) -> keras.Variable:
    return keras.Variable(np.zeros(shape, "float32"))


def test_tensors_are_assigned_to_their_weights() -> None:
    rng = np.random.default_rng(0)
    bias, kernel, out, words = variable(2, 3), variable(4, 2, 3), variable(2, 3, 4), variable(5, 4)
    mappings = [
        map_vector("bias", bias),
        map_kernel("kernel", kernel),
        map_kernel("out", out, inputs=2),
        map_table("words", words),
    ]
    shapes = {"bias": (6,), "kernel": (6, 4), "out": (4, 6), "words": (5, 4)}
    tensors = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    assert {mapping.name: mapping.shape for mapping in mappings} == shapes
    assign_weights(mappings, tensors, HERE)
    np.testing.assert_array_equal(array(bias).ravel(), tensors["bias"])
    x, y = rng.normal(size=4), rng.normal(size=6)
    np.testing.assert_allclose(
        np.einsum("d,dhk->hk", x, array(kernel)).ravel(), tensors["kernel"] @ x, atol=1e-6
    )
    np.testing.assert_allclose(
        np.einsum("hk,hkd->d", y.reshape(2, 3), array(out)), tensors["out"] @ y, atol=1e-6
    )
    np.testing.assert_array_equal(array(words), tensors["words"])


def test_layers() -> None:
    layer, norm = keras.layers.Dense(3), keras.layers.LayerNormalization()
    layer.build((None, 2))
    norm.build((None, 2))
    names = [mapping.name for mapping in (*map_dense("a", layer), *map_norm("b", norm))]
    assert names == ["a.weight", "a.bias", "b.weight", "b.bias"]


def test_one_tensor_maps_to_several_weights() -> None:
    one, two = variable(2), variable(3)
    mapping = WeightMapping("both", (5,), [one, two], lambda x: [x[:2], x[2:]])
    assign_weights([mapping], {"both": np.arange(5.0)}, HERE)
    np.testing.assert_array_equal(array(two), [2, 3, 4])


def test_invalid_arguments_are_rejected() -> None:
    mapping = map_vector("a", variable(3))
    with pytest.raises(ValueError, match=r"somewhere: tensor a is missing"):
        assign_weights([mapping], {}, HERE)
    with pytest.raises(
        ValueError, match=r"tensor a has shape \(4,\), but config.json .*require \(3,\)"
    ):
        assign_weights([mapping], {"a": np.zeros(4)}, HERE)
    tensors = {"a": np.zeros(3), "c": np.zeros(3), "b.1": np.zeros(3), "b.2": np.zeros(3)}
    with pytest.raises(
        ValueError, match=r"no weight for 3 of the tensors, such as b\.1; use a checkpoint of"
    ):
        assign_weights([mapping], tensors, HERE)
    with pytest.raises(ValueError, match="no weight for 1 of the tensors, such as c;"):
        assign_weights([mapping], tensors, HERE, ignored=[r"b\..*"])
    assign_weights([mapping], tensors, HERE, ignored=[r"b\..*", "c"])
