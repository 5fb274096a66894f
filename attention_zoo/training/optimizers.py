"""Optimizers by name, with the learning rate schedule of a recipe."""

from __future__ import annotations

import inspect
import math
from typing import Any

import keras

from attention_zoo.registry import Registry, check_known, did_you_mean
from attention_zoo.training.fused_adam import FusedAdam, FusedAdamW
from attention_zoo.training.recipe import TrainingOptions
from attention_zoo.training.schedules import SCHEDULES, Schedule

OPTIMIZERS = Registry("optimizer")
OPTIMIZERS.register("adam")(FusedAdam)
OPTIMIZERS.register("adamw")(FusedAdamW)
OPTIMIZERS.register("adadelta")(keras.optimizers.Adadelta)
OPTIMIZERS.register("sgd")(keras.optimizers.SGD)

ELSEWHERE = {
    "learning_rate": "training.learning_rate",
    "global_clipnorm": "training.clip_norm",
    "use_ema": "training.ema",
    "ema_momentum": "training.ema",
    "ema_overwrite_frequency": "training.ema",
    "gradient_accumulation_steps": "training.accumulate",
    "loss_scale_factor": "training.precision",
}
"""Arguments of Keras optimizers that the training loop replaces by options of its own."""

NORMALIZATION = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.RMSNormalization,
)


def build_optimizer(options: TrainingOptions) -> keras.optimizers.Optimizer:
    """Return the optimizer of a recipe.

    Raises:
        ValueError: the optimizer, one of its arguments or the schedule is unknown, or an argument
            has a wrong type.
    """
    check_known("training.schedule: unknown schedule", [options.schedule], SCHEDULES.names())
    rate = Schedule(options.schedule, options.learning_rate, options.warmup_steps, options.steps)
    arguments = dict(options.optimizer)
    name = arguments.pop("name")
    check_known("training.optimizer: unknown optimizer", [name], OPTIMIZERS.names())
    make = OPTIMIZERS.get(name)
    defaults = {p.name: p.default for p in inspect.signature(make).parameters.values()}
    known = sorted({*defaults} - {*ELSEWHERE, "name", "kwargs"})
    for name, value in arguments.items():
        key = f"training.optimizer.{name}"
        if name in ELSEWHERE:
            raise ValueError(f"{key}: set {ELSEWHERE[name]} instead")
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"{key}: unknown argument{hint} (known: {', '.join(known)})")
        _check_type(key, value, defaults[name])
    try:
        return make(learning_rate=rate, **arguments)
    except (TypeError, ValueError) as error:
        raise ValueError(f"training.optimizer: {' '.join(str(error).split())}") from None


def exclude_from_weight_decay(optimizer: Any, model: keras.Model) -> None:
    """Exclude biases and the weights of normalization layers from weight decay.

    Args:
        optimizer: not yet built.
        model: built.
    """
    if not optimizer.weight_decay:
        return
    layers = [x for x in model._flatten_layers() if isinstance(x, NORMALIZATION)]
    excluded = [variable for layer in layers for variable in layer.trainable_variables]
    excluded += [v for v in model.trainable_variables if "bias" in v.name or v.name == "gain"]
    if excluded:
        optimizer.exclude_from_weight_decay(var_list=excluded)


def _check_type(key: str, value: Any, default: Any) -> None:
    """Raise ValueError unless a value is null, or a boolean or finite number as the default."""
    if value is None:
        return
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ValueError(f"{key} must be true or false, got {value!r}")
    elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{key} must be a number of at least 0, got {value!r}")
