"""Learning rate schedules by name; each is a function of the update's number."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.registry import Registry

SCHEDULES = Registry("schedule")


@SCHEDULES.register("constant")
def constant(update: Any, warmup: Any, updates: Any) -> Any:
    """Compute a linear warmup followed by the constant peak."""
    return ops.minimum(update / warmup, 1.0)


@SCHEDULES.register("linear")
def linear(update: Any, warmup: Any, updates: Any) -> Any:
    """Compute a linear warmup followed by a linear decay to 0 at the last update."""
    left = (updates - update) / ops.maximum(updates - warmup, 1.0)
    return ops.minimum(update / warmup, ops.clip(left, 0.0, 1.0))


@SCHEDULES.register("cosine")
def cosine(update: Any, warmup: Any, updates: Any) -> Any:
    """Compute a linear warmup followed by a cosine decay to 0 (Loshchilov, Hutter 2017, eq. 5)."""
    done = ops.clip((update - warmup) / ops.maximum(updates - warmup, 1.0), 0.0, 1.0)
    return ops.minimum(update / warmup, 0.5 * (1.0 + ops.cos(3.141592653589793 * done)))


@SCHEDULES.register("inverse_square_root")
def inverse_square_root(update: Any, warmup: Any, updates: Any) -> Any:
    """Compute a linear warmup followed by a decay with `1 / sqrt(update)`."""
    return ops.minimum(update / warmup, ops.sqrt(warmup / update))


@SCHEDULES.register("noam")
def noam(update: Any, warmup: Any, updates: Any) -> Any:
    """Compute the schedule of Vaswani et al. 2017, eq. 3, without its factor `d_model ** -0.5`.

    Include that factor in the learning rate.
    """
    return ops.minimum(ops.rsqrt(update), update * warmup**-1.5)


@keras.saving.register_keras_serializable(package="attention_zoo")
class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate schedule, selected by name.

    Args:
        name: a name in `SCHEDULES`.
        learning_rate: multiplies the schedule's factor; the peak for all but "noam".
        warmup_steps: updates until the peak; 0 starts at the peak.
        steps: total number of updates.

    Raises:
        ValueError: the name is unknown.
    """

    def __init__(self, name: str, learning_rate: float, warmup_steps: int, steps: int) -> None:
        self.factor = SCHEDULES.get(name)
        self.name, self.learning_rate = name, learning_rate
        self.warmup_steps, self.steps = warmup_steps, steps

    def __call__(self, step: Any) -> Any:
        """Return the learning rate of update `step + 1`, a float32 scalar."""
        update = ops.cast(step, "float32") + 1.0
        warmup = ops.cast(max(self.warmup_steps, 1), "float32")
        factor = self.factor(update, warmup, ops.cast(self.steps, "float32"))
        return ops.cast(self.learning_rate, "float32") * factor

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        names = ("name", "learning_rate", "warmup_steps", "steps")
        return {name: vars(self)[name] for name in names}
