"""Multi-host training, configured by `TF_CONFIG`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

VARIABLE = "TF_CONFIG"
LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


def read_cluster() -> dict[str, list[str]]:
    """Return the addresses by task type; empty without `TF_CONFIG`.

    Raises:
        ValueError: `TF_CONFIG` is not in TensorFlow's format.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return {}
    try:
        content = json.loads(text)
        addresses: dict[str, list[str]] = content["cluster"]
        task = content["task"]
        addresses[task["type"]][int(task["index"])]
    except (ValueError, TypeError, KeyError, IndexError):
        raise ValueError(
            f"{VARIABLE}={text}: expected"
            ' {"cluster": {"worker": ["host0:port", "host1:port"]},'
            ' "task": {"type": "worker", "index": 0}}; set the index of this host,'
            f" or unset {VARIABLE}"
        ) from None
    return addresses


def has_several_hosts() -> bool:
    """Return whether more than one host trains."""
    return sum(map(len, read_cluster().values())) > 1


def is_chief() -> bool:
    """Return whether this host owns the run folder: the chief, or worker 0 without a chief."""
    if not has_several_hosts():
        return True
    task = json.loads(os.environ[VARIABLE])["task"]
    first = "chief" if "chief" in read_cluster() else "worker"
    return task["type"] == first and int(task["index"]) == 0


def make_strategy() -> tf.distribute.Strategy:
    """Return the strategy for the devices of all hosts; wait until all hosts have started."""
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:  # TensorFlow has already initialized its devices
        raise ValueError(
            f"{VARIABLE}: TensorFlow is already initialized; train in a new process ({error})"
        ) from None


def check_same_step(strategy: tf.distribute.Strategy, step: int) -> None:
    """Wait for all hosts; raise ValueError unless all resume from the same step."""
    local_steps = strategy.experimental_distribute_values_from_function(
        lambda _: tf.constant([step])
    )
    all_steps = set(strategy.gather(local_steps, axis=0).numpy().tolist())
    if len(all_steps) > 1:
        raise ValueError(
            f"all hosts must resume from the same step, got step {step} on this host and steps"
            f" {sorted(all_steps)} in all; use one run folder on shared storage for all hosts"
        )


@contextmanager
def explain_worker_loss() -> Iterator[None]:
    """Turn TensorFlow's errors for a lost host into a ValueError that says how to resume."""
    try:
        yield
    except LOST as error:
        if not has_several_hosts():
            raise
        reason = str(error.message).partition("\n")[0]
        raise ValueError(
            "another host failed or cannot be reached; stop all hosts and start them with the same"
            f" command to resume from the last checkpoint ({reason})"
        ) from error
