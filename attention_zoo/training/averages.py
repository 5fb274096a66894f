"""Exponential moving averages (EMA) of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf


class Averages:
    """Exponential moving averages of weights.

    `average = d average + (1 - d) weight` after every update, d the decay. At update n, d is
    `min(decay, (1 + n) / (10 + n))`, so that the initial weights are forgotten quickly.

    Args:
        weights: the weights to average; an empty list disables averaging.
        decay: in [0, 1).

    Reference:
        Polyak and Juditsky 1992; the first decays are those of `tf.train.ExponentialMovingAverage`.
    """

    def __init__(self, weights: Sequence[Any], decay: float) -> None:
        self.weights, self.decay, self._in_use = list(weights), decay, False
        values = [keras.ops.convert_to_numpy(weight.value) for weight in weights]
        self.variables = [
            keras.Variable(value, trainable=False, dtype=weight.dtype, name="average")
            for value, weight in zip(values, weights, strict=True)
        ]

    def update(self, strategy: tf.distribute.Strategy, updates: Any) -> None:
        """Update the averages, in the graph; `updates` is the number of updates done."""
        n = tf.cast(updates, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + n) / (10.0 + n))

        def move(average: Any, weight: Any, decay: Any) -> None:
            average.assign_add((1.0 - tf.cast(decay, weight.dtype)) * (weight - average))

        for average, weight in zip(self.variables, self.weights, strict=True):
            strategy.extended.update(average.value, move, args=(weight.value, decay), group=False)

    def swap(self) -> None:
        """Swap the weights and their averages."""
        for average, weight in zip(self.variables, self.weights, strict=True):
            value = keras.ops.convert_to_numpy(weight.value)
            weight.assign(average.value)
            average.assign(value)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Use the averages as the model's weights inside this context; contexts can be nested."""
        if self._in_use:
            yield
            return
        self.swap()
        self._in_use = True
        try:
            yield
        finally:
            self.swap()
            self._in_use = False
