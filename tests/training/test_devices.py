"""Training on several devices of a host equals training on one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import training
from attention_zoo.training.devices import device_names, make_strategy, spread, use_xla
from tests.training import custom_task
from tests.training.processes import FIT, fit_arguments, start, wait
from tests.training.small import assert_same_run, assert_similar_run, write_recipe

FIT_RECIPE = (
    "import sys; from attention_zoo import training; training.fit(sys.argv[1], sys.argv[2:])"
)


def test_cpu_is_one_device_and_cannot_be_split_after_initialization() -> None:
    assert make_strategy("auto").num_replicas_in_sync == 1
    assert make_strategy(1).num_replicas_in_sync == 1
    assert device_names(make_strategy(1)) == keras.distribution.list_devices()[0]
    with pytest.raises(
        ValueError, match=r"training\.devices=2: TensorFlow is already initialized with 1 |has 1;"
    ):
        make_strategy(2)


def test_xla_choice() -> None:
    alone = tf.distribute.get_strategy()
    assert use_xla(True, alone) is True
    assert use_xla(False, alone) is False
    several: Any = SimpleNamespace(num_replicas_in_sync=2)
    assert use_xla(True, several) is use_xla("auto", several) is False
    assert use_xla("auto", alone) is any("cpu" not in d for d in keras.distribution.list_devices())


def test_keras_distribution_raises(tmp_path: Path) -> None:
    device = keras.distribution.list_devices()[0]
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=[device]))
    try:
        with pytest.raises(ValueError, match=r"keras\.distribution is set, but has no effect"):
            training.fit(write_recipe(tmp_path), [f"run={tmp_path / 'run'}"])
    finally:
        keras.distribution.set_distribution(None)
    assert not (tmp_path / "run").exists()


def test_one_device_gets_the_whole_batch() -> None:
    x = np.arange(10).reshape(5, 2)
    data = tf.data.Dataset.from_tensor_slices(({"a": x}, x + 1)).batch(2).repeat()
    stream = iter(spread(tf.distribute.get_strategy(), data))
    for begin, stop in ((0, 2), (2, 4), (4, 5), (0, 2)):
        inputs, targets, is_used = next(stream)
        np.testing.assert_array_equal(inputs["a"], x[begin:stop])
        np.testing.assert_array_equal(targets, x[begin:stop] + 1)
        assert bool(is_used)


PRINT_SHARDS = """
import numpy as np, tensorflow as tf
from attention_zoo.training.devices import device_names, make_strategy, spread, use_xla
strategy = make_strategy(3)
assert strategy.num_replicas_in_sync == 3
assert device_names(strategy) == "cpu:0, cpu:1, cpu:2"
assert not use_xla(True, strategy)
x = np.arange(9)
stream = iter(spread(strategy, tf.data.Dataset.from_tensor_slices((x, x)).batch(7).repeat()))
def shards():
    inputs, targets, is_used = next(stream)
    local = strategy.experimental_local_results
    shards = zip(local(inputs), local(targets), local(is_used))
    return [(one.numpy().tolist(), bool(is_used)) for one, _, is_used in shards]
assert shards() == [([0, 1], True), ([2, 3], True), ([4, 5, 6], True)]
assert shards() == [([7], False), ([7], True), ([8], True)], "the first shard is a dummy example"
print("done")
"""


@pytest.mark.slow
def test_shards_are_even_and_an_empty_shard_is_not_counted() -> None:
    assert "done" in wait(start(PRINT_SHARDS, []))


@pytest.mark.slow
def test_two_devices_equal_one(tmp_path: Path) -> None:
    """Token losses of uneven batches, clipped: 300 pairs are 18 batches of 16, and one of 12."""
    path = write_recipe(tmp_path)
    overrides = ["model.dropout=0", "training.clip_norm=0.2", "training.optimizer=sgd"]
    overrides += ["training.learning_rate=0.5", "training.evaluate_every=10", "training.steps=30"]
    wait(
        start(FIT_RECIPE, [str(path), f"run={tmp_path / 'two'}", *overrides, "training.devices=2"])
    )
    training.fit(path, [f"run={tmp_path / 'one'}", *overrides])
    assert_similar_run(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
@pytest.mark.usefixtures("custom_task")
@pytest.mark.parametrize("devices", [2, 3])
def test_devices_without_examples_of_a_small_batch(devices: int, tmp_path: Path) -> None:
    """37 points are 4 batches of 9 and one of 1; with EMA and gradient accumulation."""
    options = {"ema": 0.9, "accumulate": 2, "clip_norm": 0.1}
    wait(start(FIT, fit_arguments(tmp_path / "many", devices=devices, **options)))
    training.fit(custom_task.recipe(tmp_path / "one", **options))
    assert_similar_run(tmp_path / "one", tmp_path / "many")


@pytest.mark.slow
@pytest.mark.usefixtures("custom_task")
def test_two_devices_resume_exactly_and_stop_at_a_nan(tmp_path: Path) -> None:
    """With dropout and batch normalization, whose state is copied to every device."""
    options = {"devices": 2, "checkpoint_every": 3, "precision": "mixed_float16"}
    options["model"] = {"dropout": 0.2, "between": ["BatchNormalization"]}
    wait(start(FIT, fit_arguments(tmp_path / "uninterrupted", **options)))
    wait(start(FIT, fit_arguments(tmp_path / "run", stop=7, **options)), code=3)
    wait(start(FIT, fit_arguments(tmp_path / "run", **options)))
    assert_same_run(tmp_path / "uninterrupted", tmp_path / "run")
    arguments = fit_arguments(tmp_path / "nan", {"poison": 1}, devices=2)
    assert "the loss is nan on training examples" in wait(start(FIT, arguments), code=1)
