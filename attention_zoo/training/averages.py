"""Exponential moving averages of the weights, and the model with them in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf


class Averages:
    """`average = d average + (1 - d) weight` after every update, d the decay.

    d is `min(decay, (1 + n) / (10 + n))` at update n, so that the first weights are soon forgotten.

    Args:
        weights: what is averaged; nothing, for no averages.
        decay: in [0, 1).

    Reference:
        Polyak and Juditsky 1992; the first decays are those of `tf.train.ExponentialMovingAverage`.
    """

    def __init__(self, weights: Sequence[Any], decay: float) -> None:
        self.decay = decay
        self.weights = list(weights)
        self.variables = [
            keras.Variable(
                keras.ops.convert_to_numpy(weight.value),
                trainable=False,
                dtype=weight.dtype,
                name="average",
            )
            for weight in weights
        ]
        self._in_use = False

    def update(self, strategy: tf.distribute.Strategy, updates: Any) -> None:
        """Move the averages towards the weights, in the graph, after so many updates."""
        n = tf.cast(updates, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + n) / (10.0 + n))

        def move(average: Any, weight: Any, decay: Any) -> None:
            average.assign_add((1.0 - tf.cast(decay, weight.dtype)) * (weight - average))

        for average, weight in zip(self.variables, self.weights, strict=True):
            strategy.extended.update(average.value, move, args=(weight.value, decay), group=False)

    def swap(self) -> None:
        """Put the averages in the weights' place, and the weights in theirs."""
        for average, weight in zip(self.variables, self.weights, strict=True):
            value = keras.ops.convert_to_numpy(weight.value)
            weight.assign(average.value)
            average.assign(value)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The model with the averages, to evaluate and to save it; again inside itself, too."""
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
