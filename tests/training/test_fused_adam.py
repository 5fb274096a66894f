from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from attention_zoo.training.fused_adam import FusedAdam, FusedAdamW

PAIRS = {
    "adam": (keras.optimizers.Adam, FusedAdam, {}),
    "options": (
        keras.optimizers.Adam,
        FusedAdam,
        {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3},
    ),
    "amsgrad": (keras.optimizers.Adam, FusedAdam, {"amsgrad": True}),
    "adamw": (keras.optimizers.AdamW, FusedAdamW, {"weight_decay": 0.1}),
}


def train(make: Any, options: dict[str, Any], mode: str, dtype: str = "float32") -> list[Any]:
    """Return the weights and the optimizer's variables after five updates."""
    rng = np.random.default_rng(0)
    weights = [keras.Variable(rng.normal(size=shape), dtype=dtype) for shape in ((3, 4), (5,))]
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    optimizer = make(rate, **options)
    optimizer.build(weights)
    run = lambda *gradients: optimizer.apply(list(gradients), weights)  # noqa: E731
    if mode != "eager":
        run = tf.function(run, jit_compile=mode == "xla", autograph=False)
    for _ in range(5):
        run(*[tf.constant(rng.normal(size=x.shape), dtype) for x in weights])
    return [x.numpy() for x in (*weights, *optimizer.variables)]


@pytest.mark.parametrize("mode", ["eager", "graph", pytest.param("xla", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", PAIRS)
def test_equals_keras(name: str, mode: str) -> None:
    theirs, ours, options = PAIRS[name]
    expected, actual = (train(make, options, mode) for make in (theirs, ours))
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_float64_uses_the_update_of_keras() -> None:
    expected, actual = (
        train(make, {}, "graph", "float64") for make in (keras.optimizers.Adam, FusedAdam)
    )
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_operation_per_variable() -> None:
    weights = [keras.Variable(np.ones(n, "float32")) for n in (2, 3)]
    optimizer = FusedAdam(0.1)
    optimizer.build(weights)
    graph = tf.function(lambda a, b: optimizer.apply([a, b], weights), autograph=False)
    operations = graph.get_concrete_function(tf.ones(2), tf.ones(3)).graph.get_operations()
    assert sum(x.type == "ResourceApplyAdam" for x in operations) == 2
    assert not any(x.type == "AssignSubVariableOp" for x in operations)


@pytest.mark.parametrize("make", [FusedAdam, FusedAdamW])
def test_config_and_names_of_variables(make: Any) -> None:
    optimizer = make(0.1, beta_1=0.7)
    restored = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(restored) is make
    assert restored.get_config() == optimizer.get_config()
    weight = keras.Variable(np.ones(2, "float32"), name="w")
    keras_optimizer = make.__mro__[2](0.1)
    for x in (optimizer, keras_optimizer):
        x.build([weight])
    assert [v.name for v in optimizer.variables] == [v.name for v in keras_optimizer.variables]
