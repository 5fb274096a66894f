"""Distribution strategies: one device, several devices of one host, or several hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from attention_zoo.training import hosts


def make_strategy(devices: int | str) -> tf.distribute.Strategy:
    """Return the distribution strategy; call it before TensorFlow initializes its devices.

    Args:
        devices: number of devices of this host; "auto" uses all GPUs, or the CPU as one device.
            Without a GPU, a number above 1 creates that many logical CPU devices.

    Raises:
        ValueError: there are fewer devices, or a `keras.distribution` is set, which has no effect
            on TensorFlow.
    """
    if keras.distribution.distribution() is not None:
        raise ValueError(
            "keras.distribution is set, but has no effect on TensorFlow; remove the call of"
            " keras.distribution.set_distribution and set training.devices=N"
        )
    if hosts.has_several_hosts():
        return hosts.make_strategy()
    gpus = tf.config.list_physical_devices("GPU")
    wanted = max(len(gpus), 1) if devices == "auto" else int(devices)
    if gpus and wanted > len(gpus):
        raise ValueError(
            f"training.devices={wanted}: this host has {len(gpus)}; lower it, or use auto"
        )
    if wanted == 1:
        return tf.distribute.get_strategy()
    if not gpus:
        _create_processors(wanted)
    kind = "GPU" if gpus else "CPU"
    return tf.distribute.MirroredStrategy([f"{kind}:{number}" for number in range(wanted)])


def _create_processors(count: int) -> None:
    """Split the CPU into logical devices."""
    (processor,) = tf.config.list_physical_devices("CPU")
    configurations = [tf.config.LogicalDeviceConfiguration()] * count
    try:
        tf.config.set_logical_device_configuration(processor, configurations)
    except RuntimeError:  # TensorFlow has already initialized its devices
        existing = len(tf.config.list_logical_devices("CPU"))
        if existing < count:
            raise ValueError(
                f"training.devices={count}: TensorFlow is already initialized with {existing}"
                " devices in this process; train in a new process"
            ) from None


def describe_devices(strategy: tf.distribute.Strategy) -> str:
    """Return the devices of a run as readable text."""
    total = strategy.num_replicas_in_sync
    if total == 1:
        return str(keras.distribution.list_devices()[0])
    devices = [tf.DeviceSpec.from_string(name) for name in strategy.extended.worker_devices]
    here = ", ".join(f"{one.device_type.lower()}:{one.device_index}" for one in devices)
    return here if len(devices) == total else f"{total} devices on several hosts, here {here}"


def use_xla(choice: bool | str, strategy: tf.distribute.Strategy) -> bool:
    """Return whether to use XLA for the training step; "auto" uses it with an accelerator only.

    XLA is off with several devices, because it cannot compile the operations between them.
    """
    if strategy.num_replicas_in_sync > 1:
        return False
    if choice != "auto":
        return bool(choice)
    return any(not name.startswith("cpu") for name in keras.distribution.list_devices())


def distribute_batches(strategy: tf.distribute.Strategy, dataset: Any) -> Iterable[Any]:
    """Return the batches of a dataset, each split into one shard per device.

    `CompiledSteps` takes an iterator over the result. Shards are as even as possible. If a batch
    has fewer examples than there are devices, some devices get one example that is not counted,
    because layers need at least one example.

    Args:
        strategy: the result of `make_strategy`.
        dataset: elements `(inputs, targets)`, the same on every host. It must not be iterated past
            its end.
    """
    total = strategy.num_replicas_in_sync

    def shares(context: Any) -> Any:
        local = total // context.num_input_pipelines
        first = context.input_pipeline_id * local
        indices = tf.data.Dataset.range(first, first + local)
        pieces = dataset.flat_map(lambda *batch: indices.map(lambda n: _shard(batch, n, total)))
        return pieces.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))

    batches: Iterable[Any] = strategy.distribute_datasets_from_function(shares)
    return batches


def _shard(batch: Any, index: Any, total: int) -> Any:
    """Return `(inputs, targets, is_counted)` of device number `index`."""
    size = tf.shape(tf.nest.flatten(batch)[0], tf.int64)[0]
    begin, end = size * index // total, size * (index + 1) // total
    inputs, targets = tf.nest.map_structure(lambda x: x[begin : tf.maximum(end, begin + 1)], batch)
    return inputs, targets, end > begin
