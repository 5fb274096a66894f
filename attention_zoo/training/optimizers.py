"""Optimizers by name, with the learning rate schedule of a recipe."""

from __future__ import annotations

import keras

from attention_zoo.registry import Registry
from attention_zoo.training.recipe import TrainingOptions
from attention_zoo.training.schedules import Schedule

OPTIMIZERS = Registry("optimizer")
OPTIMIZERS.register("adam")(keras.optimizers.Adam)
OPTIMIZERS.register("adamw")(keras.optimizers.AdamW)
OPTIMIZERS.register("adadelta")(keras.optimizers.Adadelta)
OPTIMIZERS.register("sgd")(keras.optimizers.SGD)


def build_optimizer(options: TrainingOptions) -> keras.optimizers.Optimizer:
    """Return the optimizer of a recipe; raise ValueError if it or its schedule is unknown."""
    schedule = Schedule(
        options.schedule, options.learning_rate, options.warmup_steps, options.steps
    )
    make = OPTIMIZERS.get(options.optimizer)
    return make(learning_rate=schedule)
