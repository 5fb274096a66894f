"""Dynamic loss scaling for float16."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

START, PATIENCE = 2.0**15, 2000


class LossScale:
    """Loss scale, halved (not below 1) at an overflow and doubled after 2000 steps without one.

    Reference:
        Micikevicius et al. 2018, arXiv 1710.03740, section 3.2, with the constants of Keras's
        `LossScaleOptimizer`.
    """

    def __init__(self) -> None:
        self._scale = keras.Variable(START, trainable=False, name="loss_scale")
        self._good = keras.Variable(0, trainable=False, dtype="int32", name="good_steps")

    @property
    def value(self) -> Any:
        """Current scale, a float32 scalar."""
        return self._scale.value

    @property
    def variables(self) -> list[Any]:
        """Variables that a checkpoint saves."""
        return [self._scale, self._good]

    def update(self, overflowed: Any) -> None:
        """Update the scale after a step, in the graph; `overflowed` is a boolean scalar."""
        good = tf.where(overflowed, 0, self._good.value + 1)
        grown = tf.equal(good, PATIENCE)
        lowered = tf.maximum(self._scale.value / 2.0, 1.0)
        raised = tf.where(grown, self._scale.value * 2.0, self._scale.value)
        self._scale.value.assign(tf.where(overflowed, lowered, raised))
        self._good.value.assign(tf.where(grown, 0, good))
